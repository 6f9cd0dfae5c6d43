// A program that uses a generated model without the runtime: there is nothing of modular to link.
#include <cstdio>

#include "generated/tiny.h"

int main() {
  modular::tiny::TinyConfig config;
  config.finish();
  modular::tiny::TinyForCausalLM model(config);
  int64_t parameters = 0;
  for (const at::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  modular::Batch batch;
  batch.input_ids = at::randint(config.vocab_size, {2, 16}, at::kLong);
  batch.labels = batch.input_ids;
  const modular::Outputs outputs = model->forward(batch);
  std::printf("%ld parameters, loss %.2f a token\n", parameters,
              (outputs.loss_sum / outputs.token_count).item<double>());
}
