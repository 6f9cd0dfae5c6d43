"""The tokenizers, texts and conversations that all tests of modrun prepare read, made once.

    generate.py FOLDER
"""

import pathlib
import shutil
import sys

import chat_reference
import reference
import sentencepiece_models


def main(folder):
    part = folder.with_name(folder.name + ".partial")
    for old in (folder, part):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    reference.make_tokenizers(part)
    sentencepiece_models.make(part)
    reference.write_texts(part)
    chat_reference.make(part)
    part.rename(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
