// Heatmap draws with characters where each word of a sentence looks, in one head of a real sentence encoder.
//
//	go run ./heatmap
//
// It runs the layer over two padded sentences and compares with the float64 reference that lies beside the numbers
// (capi/examples/data/README.md); the exit code is 1 if the result is not what it must be.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fovea"
)

func folder() string {
	if given := os.Getenv("FOVEA_EXAMPLE_DATA"); given != "" {
		return given
	}
	return filepath.Join("..", "..", "examples", "data")
}

func read(name string) []byte {
	data, err := os.ReadFile(filepath.Join(folder(), name))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return data
}

// load gives elements and shape of a .npy file of format 1.0.
func load[T any](name, descr string) ([]T, []int) {
	data := read(name)
	if len(data) < 10 || string(data[:8]) != "\x93NUMPY\x01\x00" {
		panic(name + ": not a .npy file of format 1.0")
	}
	begin := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[10:begin])
	if !strings.Contains(header, "'descr': '"+descr+"'") || !strings.Contains(header, "'fortran_order': False") {
		panic(name + ": expected " + descr + " in C order, found " + header)
	}
	var shape []int
	count := 1
	for _, size := range strings.Split(header[strings.Index(header, "(")+1:strings.Index(header, ")")], ",") {
		if number, err := strconv.Atoi(strings.TrimSpace(size)); err == nil {
			shape = append(shape, number)
			count *= number
		}
	}
	elements := make([]T, count)
	fovea.Must(0, binary.Read(bytes.NewReader(data[begin:]), binary.LittleEndian, elements))
	return elements, shape
}

func shade(weight float32) string {
	for i, limit := range []float32{0.05, 0.15, 0.35, 0.65} {
		if weight < limit {
			return strings.Repeat([]string{"·", "░", "▒", "▓"}[i], 2)
		}
	}
	return "██"
}

func main() {
	query, shape := load[float32]("query.npy", "<f4")
	key, _ := load[float32]("key.npy", "<f4")
	value, _ := load[float32]("value.npy", "<f4")
	lengths, _ := load[int32]("valid_lens.npy", "<i4")
	reference, _ := load[float64]("out.npy", "<f8")
	heads, length := shape[1], shape[2]
	out, weights := make([]float32, len(query)), make([]float32, shape[0]*heads*length*length)

	view := func(data []float32, shape ...int) *fovea.Tensor { return fovea.Must(fovea.New(data, shape...)) }
	options := &fovea.AttentionOptions{ValidLens: fovea.Must(fovea.New(lengths)),
		Weights: view(weights, shape[0], heads, length, length)}
	err := fovea.Sdpa(nil, view(query, shape...), view(key, shape...), view(value, shape...), view(out, shape...), options)
	fovea.Must(0, err)

	sentence, head := 1, 9
	words := strings.Split(strings.Split(string(read("tokens.txt")), "\n")[sentence], "\t")
	fmt.Printf("head %d: how much the word on the left attends to each of the words above\n", head)
	for letter := 0; letter < 8; letter++ {
		fmt.Printf("%12s ", "")
		for _, word := range words {
			fmt.Print(" ", (word + "        ")[letter:letter+1])
		}
		fmt.Println()
	}
	for i, word := range words {
		fmt.Printf("%12s  ", word)
		for _, weight := range weights[((sentence*heads+head)*length+i)*length:][:len(words)] {
			fmt.Print(shade(weight))
		}
		fmt.Println()
	}

	worst := 0.0
	for i := range out {
		worst = math.Max(worst, math.Abs(float64(out[i])-reference[i]))
	}
	fmt.Printf("fovea %s (%s): largest error against float64 %.1e\n", fovea.Version(), (*fovea.Context)(nil).IsaName(), worst)
	if !(worst <= 1e-5) {
		fmt.Fprintln(os.Stderr, "the output is not the reference")
		os.Exit(1)
	}
}
