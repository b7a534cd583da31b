package fovea

/*
#include "generated_shim.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// PackedMatrix is a right-hand side of products, packed once. Any number of goroutines may use it.
type PackedMatrix struct{ handle }

func newPackedMatrix(raw *C.fovea_packed_matrix, err error) (*PackedMatrix, error) {
	if err != nil {
		return nil, err
	}
	packed := &PackedMatrix{}
	packed.open("matrix", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_packed_matrix_destroy((*C.fovea_packed_matrix)(raw))
	})
	runtime.SetFinalizer(packed, (*PackedMatrix).Close)
	return packed, nil
}

// PackMatrix packs b [K,N] for Multiply.
func PackMatrix(context *Context, b *Tensor, options *MatmulPackOptions) (*PackedMatrix, error) {
	return newPackedMatrix(cMatmulPack(context, b, options))
}

// PackLinear packs a weight, [out,in] unless the options say otherwise, for Linear.
func PackLinear(context *Context, weight *Tensor, options *LinearPackOptions) (*PackedMatrix, error) {
	return newPackedMatrix(cLinearPack(context, weight, options))
}

func (p *PackedMatrix) held() *handle {
	if p == nil {
		return nil
	}
	return &p.handle
}

func (p *PackedMatrix) pointer() *C.fovea_packed_matrix {
	return (*C.fovea_packed_matrix)(p.held().pointer())
}

// Multiply is out = a b.
func (p *PackedMatrix) Multiply(context *Context, a, out *Tensor) error {
	return cMatmulPacked(context, a, p, out)
}

// Linear is out = activation(x W + bias) * multiplier + residual.
func (p *PackedMatrix) Linear(context *Context, x, out *Tensor, options *LinearOptions) error {
	return cLinear(context, x, p, out, options)
}

// Size is how many bytes it holds; 0 once it was closed.
func (p *PackedMatrix) Size() int {
	return p.held().ask(func() int { return int(C.fovea_packed_matrix_size(p.pointer())) })
}

// Close frees it, when no call uses it any more.
func (p *PackedMatrix) Close() { p.held().close() }

// MhaWeights are the weights of a multi-head attention layer, packed once. Any number of goroutines may use them.
type MhaWeights struct{ handle }

// NewMhaWeights packs them.
func NewMhaWeights(context *Context, parameters *MhaParameters) (*MhaWeights, error) {
	raw, err := cMhaWeightsCreate(context, parameters)
	if err != nil {
		return nil, err
	}
	weights := &MhaWeights{}
	weights.open("layer", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_mha_weights_destroy((*C.fovea_mha_weights)(raw))
	})
	runtime.SetFinalizer(weights, (*MhaWeights).Close)
	return weights, nil
}

func (w *MhaWeights) held() *handle {
	if w == nil {
		return nil
	}
	return &w.handle
}

func (w *MhaWeights) pointer() *C.fovea_mha_weights {
	return (*C.fovea_mha_weights)(w.held().pointer())
}

// Attend is multi-head attention: fovea_multi_head_attention. key nil is query, value nil is key.
func (w *MhaWeights) Attend(context *Context, query, key, value, out *Tensor, options *MhaOptions) error {
	return cMultiHeadAttention(context, w, query, key, value, out, options)
}

// Size is how many bytes they hold; 0 once they were closed.
func (w *MhaWeights) Size() int {
	return w.held().ask(func() int { return int(C.fovea_mha_weights_size(w.pointer())) })
}

// Close frees them, when no call uses them any more.
func (w *MhaWeights) Close() { w.held().close() }

// PreparedKeys are keys that are attended again and again, as an additive, concat or bilinear score reads them. Any number
// of goroutines may attend at once; what would change the keys while another call uses them is refused.
type PreparedKeys struct{ handle }

// NewPreparedKeys makes room for keys, none of them there yet. The score's parameters are copied.
func NewPreparedKeys(context *Context, score *Score, sizes PreparedKeysSizes) (*PreparedKeys, error) {
	raw, err := cPreparedKeysCreate(context, score, &sizes)
	if err != nil {
		return nil, err
	}
	keys := &PreparedKeys{}
	keys.measure = func(raw unsafe.Pointer) int64 {
		return int64(C.fovea_prepared_keys_length((*C.fovea_prepared_keys)(raw)))
	}
	keys.open("set of prepared keys", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_prepared_keys_destroy((*C.fovea_prepared_keys)(raw))
	})
	runtime.SetFinalizer(keys, (*PreparedKeys).Close)
	return keys, nil
}

func (k *PreparedKeys) held() *handle {
	if k == nil {
		return nil
	}
	return &k.handle
}

func (k *PreparedKeys) pointer() *C.fovea_prepared_keys {
	return (*C.fovea_prepared_keys)(k.held().pointer())
}

// Append appends key [B,Hkv,n,Dk] to every sequence.
func (k *PreparedKeys) Append(context *Context, key *Tensor) error {
	return cPreparedKeysAppend(context, k, key)
}

// Truncate forgets the keys from length on.
func (k *PreparedKeys) Truncate(length int) error { return cPreparedKeysTruncate(k, int64(length)) }

// Attend is attention over all the keys: fovea_attention_prepared.
func (k *PreparedKeys) Attend(context *Context, query, value, out *Tensor, options *AttentionOptions) error {
	return cAttentionPrepared(context, query, k, value, out, options)
}

// Len is how many keys each sequence has, during a change how many there were before; 0 once they were closed.
func (k *PreparedKeys) Len() int { return k.held().len() }

// Size is how many bytes they take; 0 once they were closed.
func (k *PreparedKeys) Size() int {
	return k.held().ask(func() int { return int(C.fovea_prepared_keys_size(k.pointer())) })
}

// Close frees them, when no call uses them any more, and no plan over them is left.
func (k *PreparedKeys) Close() { k.held().close() }
