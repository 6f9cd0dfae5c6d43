// A decoder as one writes it with libtorch alone. Its feed-forward network, norm and layer are like Llama's in other
// words; its statistics are like nothing.
#include <torch/torch.h>

namespace tiny {

struct TinyConfig {
  int64_t hidden_size = 64, intermediate_size = 128, num_attention_heads = 4, num_key_value_heads = 2, head_dim = 16;
  double rms_norm_eps = 1e-6;
  std::string hidden_act = "silu";
};

struct TinyRMSNormImpl : torch::nn::Module {
  TinyRMSNormImpl(int64_t hidden_size, double eps)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {}
  torch::Tensor forward(const torch::Tensor& hidden_states) { return rms_norm(hidden_states, weight, eps); }
  static torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
    return x * torch::rsqrt(x.pow(2).mean(-1, true) + eps) * weight;
  }
  torch::Tensor weight;
  double eps;
};
TORCH_MODULE(TinyRMSNorm);

class TinyMLPImpl : public torch::nn::Module {
 public:
  explicit TinyMLPImpl(const TinyConfig& config)
      : gate_proj_(register_module("gate_proj", torch::nn::Linear(config.hidden_size, config.intermediate_size))),
        up_proj_(register_module("up_proj", torch::nn::Linear(config.hidden_size, config.intermediate_size))),
        down_proj_(register_module("down_proj", torch::nn::Linear(config.intermediate_size, config.hidden_size))) {}

  torch::Tensor forward(const torch::Tensor& x) { return down_proj_(torch::silu(gate_proj_(x)) * up_proj_(x)); }

 private:
  torch::nn::Linear gate_proj_, up_proj_, down_proj_;
};
TORCH_MODULE(TinyMLP);

class TinyDecoderLayerImpl : public torch::nn::Module {
 public:
  explicit TinyDecoderLayerImpl(const TinyConfig& config)
      : mlp(register_module("mlp", TinyMLP(config))),
        input_layernorm(register_module("input_layernorm", TinyRMSNorm(config.hidden_size, config.rms_norm_eps))),
        post_attention_layernorm(
            register_module("post_attention_layernorm", TinyRMSNorm(config.hidden_size, config.rms_norm_eps))) {}

  torch::Tensor forward(const torch::Tensor& hidden_states);

  TinyMLP mlp;
  TinyRMSNorm input_layernorm;
  TinyRMSNorm post_attention_layernorm;
};
TORCH_MODULE(TinyDecoderLayer);

torch::Tensor TinyDecoderLayerImpl::forward(const torch::Tensor& hidden_states) {
  auto residual = hidden_states + input_layernorm(hidden_states);
  return residual + mlp(post_attention_layernorm(residual));
}

class TinyStatisticsImpl : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& samples, int64_t bins) {
    auto counts = torch::histc(samples.flatten(), bins);
    for (int64_t bin = 1; bin < bins; ++bin) counts[bin] += counts[bin - 1];
    return counts / counts[-1];
  }
};
TORCH_MODULE(TinyStatistics);

}  // namespace tiny
