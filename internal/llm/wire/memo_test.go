package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestMemoIsTheFunctionWithinBounds(t *testing.T) {
	var m memo
	upper := func(raw json.RawMessage) json.RawMessage { return json.RawMessage(strings.ToUpper(string(raw))) }
	var all sync.WaitGroup
	for p := range 4 {
		all.Go(func() {
			for i := range 3000 {
				text := fmt.Sprintf("text %d %s", i%(700+p), strings.Repeat("x", i%50*400))
				if got := string(m.get(json.RawMessage(text), upper)); got != strings.ToUpper(text) {
					t.Errorf("%q", got)
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for k, v := range m.made {
		sum += len(k) + len(v)
	}
	if len(m.made) > maxMemos || sum != m.bytes || sum > maxMemoBytes {
		t.Errorf("%d of %d bytes, counted %d", len(m.made), sum, m.bytes)
	}
	m.get(json.RawMessage(strings.Repeat("y", maxMemo+1)), upper)
	if _, ok := m.made[strings.Repeat("y", maxMemo+1)]; ok {
		t.Error("a long one is kept")
	}
	// The caller's array may be used for something else.
	raw := json.RawMessage("abc")
	m.get(raw, func(raw json.RawMessage) json.RawMessage { return raw })
	copy(raw, "xyz")
	if got := m.get(json.RawMessage("abc"), upper); string(got) != "abc" {
		t.Errorf("%s", got)
	}
}
