/* Prints size and offsets of the structs that capi/examples/python declares for itself. */
#include <fovea/fovea.h>
#include <stdio.h>

#define STRUCT(type) printf("%s %d\n", #type, (int)sizeof(type))
#define MEMBER(type, member) printf("%s.%s %d\n", #type, #member, (int)offsetof(type, member))

int main(void) {
  STRUCT(fovea_tensor);
  MEMBER(fovea_tensor, data);
  MEMBER(fovea_tensor, dtype);
  MEMBER(fovea_tensor, rank);
  MEMBER(fovea_tensor, shape);
  MEMBER(fovea_tensor, strides);
  STRUCT(fovea_attention_options);
  MEMBER(fovea_attention_options, struct_size);
  MEMBER(fovea_attention_options, flags);
  MEMBER(fovea_attention_options, empty_rows);
  MEMBER(fovea_attention_options, scale);
  MEMBER(fovea_attention_options, softcap);
  MEMBER(fovea_attention_options, query_offset);
  MEMBER(fovea_attention_options, window_left);
  MEMBER(fovea_attention_options, window_right);
  MEMBER(fovea_attention_options, valid_lens);
  MEMBER(fovea_attention_options, mask);
  MEMBER(fovea_attention_options, bias);
  MEMBER(fovea_attention_options, alibi_slopes);
  MEMBER(fovea_attention_options, sinks);
  MEMBER(fovea_attention_options, log_sum_exp);
  MEMBER(fovea_attention_options, weights);
  MEMBER(fovea_attention_options, dropout);
  MEMBER(fovea_attention_options, reserved);
  MEMBER(fovea_attention_options, dropout_seed);
  MEMBER(fovea_attention_options, query_offsets);
  return 0;
}
