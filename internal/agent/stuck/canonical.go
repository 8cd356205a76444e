package stuck

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

// maxExact is the largest whole number that a float64 tells from its neighbours.
const maxExact = 1 << 53

// canonical renders a JSON value so that equal meanings are equal texts: members
// are sorted, null ones left out, numbers written in one way. drop changes the
// value first. What is not JSON is compared as text.
func canonical(raw []byte, drop func(map[string]any)) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return strings.TrimSpace(string(raw))
	}
	if _, err := dec.Token(); err != io.EOF {
		return strings.TrimSpace(string(raw))
	}
	if members, ok := v.(map[string]any); ok {
		drop(members)
	}
	out, err := json.Marshal(plain(v))
	if err != nil { // a decoded value always encodes
		return string(raw)
	}
	return string(out)
}

// plain makes a decoded value independent of how it was written.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			v[name] = plain(member)
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case json.Number:
		return number(v)
	case string:
		return savedOutput.ReplaceAllString(v, "output-.txt")
	}
	return v
}

// number writes 1, 1.0 and 1e0 in the same way.
func number(n json.Number) json.Number {
	if i, err := n.Int64(); err == nil {
		return json.Number(strconv.FormatInt(i, 10)) // -0 is 0
	}
	f, err := n.Float64()
	switch {
	case err != nil: // beyond a float64
		return n
	case f == math.Trunc(f) && math.Abs(f) < maxExact:
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// savedOutput is the name of a file with a long output, which is new each time.
var savedOutput = lazyre.MustCompile(`output-[0-9a-f]{16}\.txt`)

// dropLabels removes what a call says about itself.
func dropLabels(action map[string]any) {
	delete(action, "security_risk")
	delete(action, "summary")
}

// read is what the model reads of an observation's metadata, and what became of
// the command. The rest changes by itself: the pid of a background job, or who
// asks.
var metadataRead = []string{"prefix", "suffix", "working_dir", "exit_code"}

// dropVolatile removes what differs between two equal results.
func dropVolatile(observation map[string]any) {
	delete(observation, "full_output_save_dir")
	metadata, ok := observation["metadata"].(map[string]any)
	if !ok {
		return
	}
	kept := map[string]any{}
	for _, name := range metadataRead {
		kept[name] = metadata[name]
	}
	observation["metadata"] = kept
}
