package fovea_test

import (
	"math"
	"testing"

	"fovea"
)

type half interface {
	fovea.Float16 | fovea.BFloat16
	Float32() float32
}

// Every number there is comes back as it was, and what lies between two goes to the nearer, from the middle to the even one.
func checkRounding[T half](t *testing.T, round func(float32) T, infinity T) {
	for bits := 0; bits <= 0xffff; bits++ {
		h := T(bits)
		x := h.Float32()
		back := round(x)
		if x != x {
			if y := back.Float32(); y == y {
				t.Fatalf("%#x, a NaN, came back as %v", bits, y)
			}
			continue
		}
		if back != h {
			t.Fatalf("%#x came back as %#x", bits, back)
		}
		if bits&0x7fff >= int(infinity)-1 { // the largest number and infinity
			continue
		}
		next := T(bits + 1)
		middle := float32((float64(x) + float64(next.Float32())) / 2)
		even, above := h, math.Nextafter32(middle, next.Float32())
		if bits&1 == 1 {
			even = next
		}
		if below := math.Nextafter32(middle, x); round(below) != h || round(above) != next || round(middle) != even {
			t.Fatalf("between %#x and %#x: %#x, %#x, %#x", bits, next, round(below), round(middle), round(above))
		}
	}
	if round(math.MaxFloat32) != infinity || round(-math.MaxFloat32) != infinity|0x8000 {
		t.Fatal("what is too large is not infinite")
	}
}

func TestRounding(t *testing.T) {
	checkRounding(t, fovea.Float16Of, 0x7c00)
	checkRounding(t, fovea.BFloat16Of, 0x7f80)
	if math.Float32bits(fovea.Float16(0x8001).Float32()) != 0xb3800000 || fovea.BFloat16(0x3f80).Float32() != 1 {
		t.Fatal("other numbers than the formats'")
	}
	if fovea.Float16Of(65519.996) != 0x7bff || fovea.Float16Of(65520) != 0x7c00 {
		t.Fatal("the largest number ends elsewhere")
	}
}

func each[T, U any](numbers []T, what func(T) U) []U {
	out := make([]U, len(numbers))
	for i, number := range numbers {
		out[i] = what(number)
	}
	return out
}

func equal[T comparable](t *testing.T, found, expected []T) {
	t.Helper()
	for i := range expected {
		if found[i] != expected[i] {
			t.Fatalf("%v, expected %v", found, expected)
		}
	}
}

// A call gives what it gives of the same numbers in float32, rounded once; where no products of bfloat16 are taken, which are
// the library's to choose on some processors.
func checkCalls[T half](t *testing.T, round func(float32) T) {
	base := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxIsa: "base"}))
	widen := func(h T) float32 { return h.Float32() }
	q, k, v := each(ramp(20), round), each(ramp(40)[4:], round), each(ramp(60)[24:], round)
	expected, out, unrounded := make([]float32, 20), make([]T, 20), make([]float32, 20)
	wide := func(numbers []T) *fovea.Tensor { return view(each(numbers, widen), len(numbers)/4, 4) }
	ok(t, fovea.Sdpa(base, wide(q), wide(k), wide(v), view(expected, 5, 4), nil))
	rounded := each(expected, round)

	ok(t, fovea.Sdpa(base, view(q, 5, 4), view(k, 9, 4), view(v, 9, 4), view(out, 5, 4), nil))
	equal(t, out, rounded)
	ok(t, fovea.Sdpa(base, view(q, 5, 4), view(k, 9, 4), view(v, 9, 4), view(unrounded, 5, 4), nil))
	equal(t, unrounded, expected)
	gaussian := &fovea.Score{Kind: fovea.ScoreGaussian, Sigma: 1}
	ok(t, fovea.Attention(base, gaussian, wide(q), wide(k), wide(v), view(expected, 5, 4), nil))
	ok(t, fovea.Attention(base, gaussian, view(q, 5, 4), view(k, 9, 4), view(v, 9, 4), view(out, 5, 4), nil))
	equal(t, out, each(expected, round))

	queries, keys := fovea.Must(fovea.ShapeOnly[T](5, 4)), fovea.Must(fovea.ShapeOnly[T](9, 4))
	plan := fovea.Must(fovea.PlanSdpa(base, queries, keys, keys, queries, nil))
	buffers := fovea.Buffers{Query: fovea.Slice(q), Key: fovea.Slice(k), Value: fovea.Slice(v), Out: fovea.Slice(out)}
	ok(t, plan.Run(&buffers, plan.NewWorkspace()))
	equal(t, out, rounded)
	buffers.Query = fovea.Slice(make([]uint8, 80))
	refused(t, plan.Run(&buffers, plan.NewWorkspace()), fovea.BadDtype)
	// Every other operation takes them too.
	x, product, wideProduct := view(q[:4], 2, 2), make([]T, 4), make([]float32, 4)
	wideX := view(each(q[:4], widen), 2, 2)
	ok(t, fovea.Matmul(base, x, x, view(product, 2, 2)))
	ok(t, fovea.Matmul(base, wideX, wideX, view(wideProduct, 2, 2)))
	equal(t, product, each(wideProduct, round))
}

func TestSixteenBitsAreFloat32RoundedOnce(t *testing.T) {
	checkCalls(t, fovea.Float16Of)
	checkCalls(t, fovea.BFloat16Of)
}
