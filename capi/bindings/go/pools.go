package fovea

/*
#include "generated_shim.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// KvPool holds keys and values of many sequences and layers, in pages that sequences share where they begin alike. One call
// at a time uses it, and another is refused meanwhile; a sequence that is closed then goes with the pool's next change.
type KvPool struct {
	handle
	dropped *dropped
}

// Sequence is one of a pool's, which it keeps. Close gives its pages back, or else the garbage collector does.
type Sequence struct {
	handle
	pool   *KvPool
	id     C.int64_t
	length atomic.Int64
}

// Pages are a layer's: [P,Hkv,page,D] and [P,Hkv,page,Dv], with scales where they are of int8, or values of
// FourBits, [P,Hkv,page,Dv/2], else those are nil.
type Pages struct {
	Keys, Values, KeyScales, ValueScales *Tensor
}

// Growth is by how many positions a sequence grows in a step.
type Growth struct {
	Sequence *Sequence
	Tokens   int
}

// dropped are sequences that were closed while a call was using the pool. Apart from that, which the garbage collector would
// not free if its handle led back to it.
type dropped struct {
	mutex sync.Mutex
	ids   []C.int64_t
}

// close ends the sequences, for one who is alone with the pool, and counts the free pages.
func (d *dropped) close(raw unsafe.Pointer) int64 {
	d.mutex.Lock()
	ids := d.ids
	d.ids = nil
	d.mutex.Unlock()
	for _, id := range ids {
		C.fovea_kv_pool_close((*C.fovea_kv_pool)(raw), id)
	}
	return int64(C.fovea_kv_pool_free_pages((*C.fovea_kv_pool)(raw)))
}

// NewKvPool makes an empty one.
func NewKvPool(sizes KvPoolSizes) (*KvPool, error) {
	result := C.go_fovea_kv_pool_create(sizes.raw())
	if err := finish(result); err != nil {
		return nil, err
	}
	pool := &KvPool{dropped: &dropped{}}
	pool.measure = pool.dropped.close
	pool.open("pool", result.made, func(raw unsafe.Pointer) { C.fovea_kv_pool_destroy((*C.fovea_kv_pool)(raw)) })
	runtime.SetFinalizer(pool, (*KvPool).Close)
	return pool, nil
}

func (p *KvPool) held() *handle {
	if p == nil {
		return nil
	}
	return &p.handle
}

func (p *KvPool) pointer() *C.fovea_kv_pool { return (*C.fovea_kv_pool)(p.held().pointer()) }

// alone makes a call that no other gets in the way of.
func (p *KvPool) alone(call func() error) error {
	if p == nil {
		return refuse(NullPointer, "a sequence or a pool that was made by no function of this package")
	}
	held := uses{{p.held(), true}}
	if err := held.begin(); err != nil {
		return err
	}
	defer held.end()
	return call()
}

// newSequence opens one by a call that is alone with the pool.
func (p *KvPool) newSequence(call func() C.go_result) (*Sequence, error) {
	var sequence *Sequence
	err := p.alone(func() error {
		result := call()
		if err := finish(result); err != nil {
			return err
		}
		if err := p.held().hold(); err != nil { // closed meanwhile
			C.fovea_kv_pool_close(p.pointer(), result.number)
			return err
		}
		id := result.number
		sequence = &Sequence{pool: p, id: id}
		sequence.length.Store(int64(C.fovea_kv_pool_length(p.pointer(), id)))
		sequence.open("sequence", p.held().pointer(), func(unsafe.Pointer) { p.drop(id) }, p.held())
		runtime.SetFinalizer(sequence, (*Sequence).Close)
		return nil
	})
	return sequence, err
}

// drop closes a sequence now, or leaves that to the call that is using the pool.
func (p *KvPool) drop(id C.int64_t) {
	p.dropped.mutex.Lock()
	p.dropped.ids = append(p.dropped.ids, id)
	p.dropped.mutex.Unlock()
	if p.begin(true) == nil {
		p.end(true)
	}
}

// Open makes a new, empty sequence.
func (p *KvPool) Open() (*Sequence, error) {
	return p.newSequence(func() C.go_result { return C.go_fovea_kv_pool_open(p.pointer()) })
}

// Step makes room for a step, all of it or none: ErrPoolExhausted if pages run out. What it gives is for Schedule.Set.
func (p *KvPool) Step(context *Context, growths ...Growth) (*Step, error) {
	ids, tokens := make([]int64, len(growths)), make([]int64, len(growths))
	for i, growth := range growths {
		if growth.Sequence == nil || growth.Sequence.pool != p {
			return nil, refuse(BadValue, "sequence %d of the step is none of the pool's", i)
		}
		if err := growth.Sequence.held().hold(); err != nil {
			return nil, err
		}
		defer growth.Sequence.held().letGo()
		ids[i], tokens[i] = int64(growth.Sequence.id), int64(growth.Tokens)
	}
	if err := context.held().hold(); err != nil {
		return nil, err
	}
	defer context.held().letGo()
	sequences, counts := Must(New(ids)), Must(New(tokens))
	var step *Step
	err := p.alone(func() error {
		var told [6]C.fovea_tensor
		result := C.go_fovea_kv_pool_step(context.pointer(), p.pointer(), sequences.view(), sequences.bytes(), counts.view(),
			counts.bytes(), &told[0])
		if err := finish(result); err != nil {
			return err
		}
		for _, growth := range growths {
			growth.Sequence.measure()
		}
		step = &Step{QueryStarts: copied(&told[0]), KeyStarts: copied(&told[1]), KeyLens: copied(&told[2]),
			PageIds: copied(&told[3]), PageStarts: copied(&told[4]), Tree: copied(&told[5])}
		return nil
	})
	return step, err
}

// copied is a tensor of the pool's, which has no gaps, as one of Go's. What it describes is gone with the pool's next change.
func copied(told *C.fovea_tensor) *Tensor {
	if told.rank < 0 {
		return nil
	}
	tensor := &Tensor{desc: described(told)}
	lowest, highest, _ := reach(&tensor.desc)
	bytes := make([]int64, ((highest-lowest+1)*sizeOf(told.dtype)+7)/8)
	tensor.data = pointer(bytes, 0)
	if len(bytes) > 0 {
		size := (highest - lowest + 1) * sizeOf(told.dtype)
		copy(unsafe.Slice((*byte)(tensor.data), size), unsafe.Slice((*byte)(told.data), size))
	}
	return tensor
}

func described(told *C.fovea_tensor) C.go_view {
	return C.go_view{dtype: told.dtype, rank: told.rank, shape: told.shape, strides: told.strides}
}

// Pages gives a layer's pages: what a schedule is made with, and appends to. The tensors keep the pool's memory.
func (p *KvPool) Pages(layer int) (Pages, error) {
	if p.held().hold() != nil || p == nil {
		return Pages{}, refuse(BadValue, "the pool was closed")
	}
	defer p.held().letGo()
	number := C.int64_t(layer)
	pages := Pages{p.tensor(C.fovea_kv_pool_keys(p.pointer(), number)), p.tensor(C.fovea_kv_pool_values(p.pointer(), number)),
		p.tensor(C.fovea_kv_pool_key_scales(p.pointer(), number)),
		p.tensor(C.fovea_kv_pool_value_scales(p.pointer(), number))}
	if pages.Keys == nil {
		return Pages{}, refuse(BadValue, "the pool has no layer %d", layer)
	}
	return pages, nil
}

// tensor is for one who holds the pool.
func (p *KvPool) tensor(told C.fovea_tensor) *Tensor {
	if told.rank < 0 {
		return nil
	}
	p.holds.Add(1)
	tensor := &Tensor{desc: described(&told), data: told.data, pool: p.held()}
	runtime.SetFinalizer(tensor, func(gone *Tensor) { gone.pool.letGo() })
	return tensor
}

// FreePages is how many no sequence holds, during a change how many there were before; 0 once the pool was closed.
func (p *KvPool) FreePages() int { return p.held().len() }

// Size is how many bytes all pages take; 0 once it was closed.
func (p *KvPool) Size() int {
	return p.held().ask(func() int { return int(C.fovea_kv_pool_size(p.pointer())) })
}

// Restore opens a sequence of what Save gave, here or in another pool of the same layers, heads, features and types.
func (p *KvPool) Restore(bytes []byte) (*Sequence, error) {
	return p.newSequence(func() C.go_result {
		return C.go_fovea_kv_pool_restore(p.pointer(), (*C.uchar)(pointer(bytes, 0)), C.size_t(len(bytes)))
	})
}

// Close frees it, when no call and no sequence uses it any more, and no tensor of its pages is left.
func (p *KvPool) Close() { p.held().close() }

func (s *Sequence) held() *handle {
	if s == nil {
		return nil
	}
	return &s.handle
}

// alone makes a call that no other of the pool's gets in the way of.
func (s *Sequence) alone(call func(pool *C.fovea_kv_pool) error) error {
	if s == nil {
		return refuse(NullPointer, "a sequence is nil")
	}
	if err := s.held().hold(); err != nil {
		return err
	}
	defer s.held().letGo()
	return s.pool.alone(func() error { return call(s.pool.pointer()) })
}

// measure notes the length, for one who is alone with the pool.
func (s *Sequence) measure() { s.length.Store(int64(C.fovea_kv_pool_length(s.pool.pointer(), s.id))) }

// Fork makes a new sequence that begins as the first length positions of this one, whose pages it shares.
func (s *Sequence) Fork(length int) (*Sequence, error) {
	if s == nil {
		return nil, refuse(NullPointer, "a sequence is nil")
	}
	if err := s.held().hold(); err != nil {
		return nil, err
	}
	defer s.held().letGo()
	return s.pool.newSequence(func() C.go_result {
		return C.go_fovea_kv_pool_fork(s.pool.pointer(), s.id, C.int64_t(length))
	})
}

// Truncate forgets the positions from length on.
func (s *Sequence) Truncate(length int) error {
	return s.alone(func(pool *C.fovea_kv_pool) error {
		defer s.measure()
		return finish(C.go_fovea_kv_pool_truncate(pool, s.id, C.int64_t(length)))
	})
}

// DropFront gives back the pages that hold only positions before first, which no query attends any more. Positions keep
// their numbers.
func (s *Sequence) DropFront(first int) error {
	return s.alone(func(pool *C.fovea_kv_pool) error {
		return finish(C.go_fovea_kv_pool_drop(pool, s.id, C.int64_t(first)))
	})
}

// Len is how many positions it has, the dropped ones included; 0 once it was closed.
func (s *Sequence) Len() int {
	if s == nil || s.closed.Load() {
		return 0
	}
	return int(s.length.Load())
}

// Save gives it as bytes, for a file or another machine.
func (s *Sequence) Save() (bytes []byte, err error) {
	err = s.alone(func(pool *C.fovea_kv_pool) error {
		bytes = make([]byte, int(C.fovea_kv_pool_saved_size(pool, s.id)))
		return finish(C.go_fovea_kv_pool_save(pool, s.id, (*C.uchar)(pointer(bytes, 0)), C.size_t(len(bytes))))
	})
	return bytes, err
}

// Close gives its pages back, when no call uses it any more.
func (s *Sequence) Close() { s.held().close() }
