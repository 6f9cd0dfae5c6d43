"""Embeds the texts of a file with Sentence Transformers, and compares with modrun forward.

usage: check_sentence_transformers.py EXPORTED INPUTS OUTPUTS
"""

import sys

import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

exported, inputs, outputs = sys.argv[1:]
batch, found = load_file(inputs), load_file(outputs)["logits"]
# The file's ids as words, which the tokenizer encodes to the same ids.
words = {f"w{token:03}": token for token in range(int(batch["input_ids"].max()) + 1)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w001"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w000", unk_token="w001").save_pretrained(exported)
ids, mask = batch["input_ids"].flatten(0, 1), batch["attention_mask"].flatten(0, 1)
texts = [" ".join(f"w{token:03}" for token in row[kept.bool()].tolist()) for row, kept in zip(ids, mask)]
embeddings = torch.tensor(SentenceTransformer(exported, device="cpu").encode(texts))
difference = (embeddings - found).abs().max().item()
if embeddings.shape != found.shape or difference > 1e-5:
    sys.exit(f"Sentence Transformers' embeddings {tuple(embeddings.shape)} differ from {tuple(found.shape)} by {difference}")
