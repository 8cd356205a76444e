package patch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/tool"
)

// diff writes the hunks that turn a into b, with so many lines of context.
func diff(a, b []string, context int) string {
	lengths := make([][]int, len(a)+1) // of the longest common subsequence of what is left
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	var lines []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, " "+a[i])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || lengths[i+1][j] >= lengths[i][j+1]):
			lines = append(lines, "-"+a[i])
			i++
		default:
			lines = append(lines, "+"+b[j])
			j++
		}
	}
	return withContext(lines, context)
}

func withContext(lines []string, context int) string {
	var out []string
	end := 0
	for i, l := range lines {
		if l[0] == ' ' {
			continue
		}
		if from := max(i-context, 0); from > end || i == 0 || len(out) == 0 {
			out = append(out, "@@")
			end = from
		}
		to := min(i+context+1, len(lines))
		if to > end {
			out = append(out, lines[end:to]...)
			end = to
		}
	}
	return strings.Join(out, "\n")
}

// TestApplyDiff: apply(diff(a, b), a) = b, with the whole file as context, where
// nothing is ambiguous.
func TestApplyDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", " a", "a ", "+x", "-x", "@@", "*** End of File", "\u00fc"}), 0, 12)
		checkDiff(t, words.Draw(t, "a"), words.Draw(t, "b"), 1000)
	})
}

// TestApplyDiffContext: the usual three lines, in files whose lines are distinct.
func TestApplyDiffContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b []string
		for i := range rapid.IntRange(1, 60).Draw(t, "lines") {
			own := fmt.Sprintf("line %d", i)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				a = append(a, own)
			case 1:
				b = append(b, own)
			case 2:
				a, b = append(a, own), append(b, own+" changed")
			default:
				a, b = append(a, own), append(b, own)
			}
		}
		checkDiff(t, a, b, 3)
	})
}

func checkDiff(t *rapid.T, a, b []string, context int) {
	if slices.Equal(a, b) {
		return
	}
	before, want := joined(a), joined(b)
	sections, err := parse(markBegin + "\n" + markUpdate + " f\n" + diff(a, b, context) + "\n" + markEnd)
	if err != nil {
		t.Fatalf("%q to %q: %v\n%s", before, want, err, diff(a, b, context))
	}
	got, _, err := applyHunks("f", before, sections[0].hunks)
	if err != nil || got != want {
		t.Fatalf("%q: got %q, want %q, %v\n%s", before, got, want, err, diff(a, b, context))
	}
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func FuzzParse(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@ a\n@@\n x\n-y\n+z\n\n*** End of File\n*** End Patch", "x\ny\n")
	f.Add("```\n*** Begin Patch\n*** Add File: f\n+a\n\n*** Delete File: g\n*** End Patch\n```", "")
	f.Add("*** Begin Patch\r\n*** Update File: f\r\n\r\n+a\r\n*** End Patch", "a\r\n\r")
	f.Fuzz(func(t *testing.T, patch, text string) {
		sections, err := parse(patch)
		if err != nil {
			if _, ok := tool.ForModel(err); !ok {
				t.Fatal(err)
			}
			return
		}
		for _, s := range sections {
			if s.path == "" || s.action == actionUpdate && s.moveTo == "" && len(s.hunks) == 0 {
				t.Fatalf("section %+v", s)
			}
			if _, _, err := applyHunks(s.path, text, s.hunks); err != nil {
				if _, ok := tool.ForModel(err); !ok {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRepetitive: a file and a hunk of equal lines take the product of their
// lengths, up to a bound.
func TestRepetitive(t *testing.T) {
	hunks := []hunk{{number: 1}}
	for range 20_000 {
		hunks[0].lines = append(hunks[0].lines, line{kind: ' ', text: "a"})
	}
	hunks[0].lines = append(hunks[0].lines, line{kind: '-', text: "b"})
	began := time.Now()
	_, _, err := applyHunks("f", strings.Repeat("a\n", 200_000), hunks)
	if text, ok := tool.ForModel(err); !ok || !strings.Contains(text, "too repetitive") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
