"""Writes the tokenizers, texts and conversations that all tests of modrun prepare read, once.

    generate.py FOLDER
"""

import pathlib
import shutil
import sys

import chat_reference
import reference
import sentencepiece_models
import tokenizer_folders


def main(folder):
    scripts = pathlib.Path(__file__).parent.glob("*.py")
    if folder.exists() and folder.stat().st_mtime > max(script.stat().st_mtime for script in scripts):
        return  # another ctest may be reading it
    part = folder.with_name(folder.name + ".partial")
    for old in (folder, part):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    reference.make_tokenizers(part)
    sentencepiece_models.make(part)
    reference.write_texts(part)
    chat_reference.make(part)
    tokenizer_folders.main(part / "classes")
    part.rename(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
