// What layouts.c prints, of the structs in the example in Rust, whose path is FOVEA_EXAMPLE when this is compiled.
#[allow(dead_code)]
mod example {
    include!(env!("FOVEA_EXAMPLE"));

    macro_rules! layout {
        ($name:literal, $type:ty, $($member:ident)*) => {
            let zero: $type = unsafe { std::mem::zeroed() };
            println!("{} {}", $name, std::mem::size_of::<$type>());
            $(
                let offset = &zero.$member as *const _ as usize - &zero as *const _ as usize;
                println!("{}.{} {}", $name, stringify!($member), offset);
            )*
        };
    }

    pub fn print_layouts() {
        layout!("fovea_tensor", Tensor, data dtype rank shape strides);
        layout!("fovea_attention_options", AttentionOptions, struct_size flags empty_rows scale softcap query_offset
            window_left window_right valid_lens mask bias alibi_slopes sinks log_sum_exp weights dropout reserved
            dropout_seed query_offsets);
    }
}

fn main() {
    example::print_layouts();
}
