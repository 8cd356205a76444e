package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
)

// benchLine is one result of go test -bench: package's last element is printed
// before it in a "pkg:" line.
var (
	benchPkg  = regexp.MustCompile(`^pkg: parley/internal/(?:llm/)?(\S+)`)
	benchLine = regexp.MustCompile(`^Benchmark(StreamedChunk|Call|Guard)\S*\s+\d+\s+([0-9.]+) ns/op(?:.*?([0-9.]+) ns/chunk)?`)
)

// adapters measures what the model adapters cost by themselves, against a server
// in the same process: a streamed chunk, and a whole call with a history of 200
// messages; and what the guard that holds the budget adds to a call. Five runs
// each; the table has the median and the largest.
func (b *bench) adapters() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark(StreamedChunk|Call|Guard)$", "-count", "5",
		"-benchtime", "300ms", "./internal/llm/...", "./internal/spend/")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	names, samples := []string{}, map[string][]float64{}
	pkg := ""
	for line := range bytes.Lines(out) {
		if m := benchPkg.FindSubmatch(line); m != nil {
			pkg = string(m[1])
		}
		m := benchLine.FindSubmatch(line)
		if m == nil {
			continue
		}
		figure := m[2]
		if len(m[3]) > 0 {
			figure = m[3]
		}
		ns, err := strconv.ParseFloat(string(figure), 64)
		if err != nil {
			return err
		}
		name := map[string]string{"StreamedChunk": "a streamed chunk, ", "Call": "a call, ", "Guard": "the budget's guard around a call, "}[string(m[1])] + pkg
		if samples[name] == nil {
			names = append(names, name)
		}
		samples[name] = append(samples[name], ns)
	}
	slices.Sort(names)
	for _, name := range names {
		s := samples[name]
		slices.Sort(s)
		b.rows = append(b.rows, row{name, micros(s[len(s)/2]), micros(s[len(s)-1]), ""})
	}
	return nil
}

func micros(ns float64) string { return fmt.Sprintf("%.1f µs", ns/1000) }
