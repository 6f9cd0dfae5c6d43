// Load balancing of experts in training.
#pragma once

namespace modular {

struct RouterOptions {
  // Coefficient of the load-balancing loss; 0 for none. Over an entire step it is transformers'
  // load_balancing_loss_func: for n experts, the sum over e of n f_e P_e, where f_e counts the choices of e and P_e
  // sums its normalized scores over all positions and layers, both divided by the number of positions and layers (Fedus
  // et al., Switch Transformer). By sequence it is the sum over layers, and the mean over samples, of the sum over e of
  // n/k f_e P_e, where both are means over the sample's positions in that layer and k experts are chosen per position
  // (DeepSeek-V2).
  double aux_loss = 0.0;
  bool by_sequence = false;
  // Coefficient of the router z-loss: the sum over layers, and the mean over positions, of the squared log-sum-exp of a
  // router's logits (Zoph et al., ST-MoE); 0 for none.
  double z_loss = 0.0;
  // Amount by which router biases rise or fall after a step (Wang et al., Auxiliary-Loss-Free Load Balancing).
  double bias_speed = 0.0;

  bool does_anything() const { return aux_loss > 0.0 || z_loss > 0.0 || bias_speed > 0.0; }
};

}  // namespace modular
