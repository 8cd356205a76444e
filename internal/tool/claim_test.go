package tool_test

import (
	"testing"

	"parley/internal/tool"
)

func TestConflict(t *testing.T) {
	read := func(name string) []tool.Claim { return []tool.Claim{tool.ClaimFile(name, false)} }
	write := func(name string) []tool.Claim { return []tool.Claim{tool.ClaimFile(name, true)} }
	everything := []tool.Claim{{Write: true}}
	for name, c := range map[string]struct {
		a, b []tool.Claim
		want bool
	}{
		"two readers":                   {read("/a"), read("/a"), false},
		"reader and writer":             {read("/a"), write("/a"), true},
		"writers of one file":           {write("/a/b"), write("/a/./b"), true},
		"writers of two files":          {write("/a/b"), write("/a/c"), false},
		"a tree that is read":           {read("/a"), write("/a/b"), true},
		"a tree beside":                 {read("/a"), write("/ab"), false},
		"the root":                      {read("/"), write("/a"), true},
		"a relative path":               {write("b"), read("/a/b"), true},
		"everything and a reader":       {everything, read("/a"), true},
		"everything and nothing":        {everything, nil, false},
		"another tree":                  {[]tool.Claim{{Name: "browser", Write: true}}, write("/a"), false},
		"everything and another tree":   {[]tool.Claim{{Name: "browser"}}, everything, true},
		"one of several":                {append(read("/x"), write("/y")...), read("/y"), true},
		"everything that is only read":  {[]tool.Claim{{}}, read("/a"), false},
		"everything read, one changed":  {[]tool.Claim{{}}, write("/a"), true},
		"the same name as a mere start": {write("/a"), write("/a.txt"), false},
	} {
		if tool.Conflict(c.a, c.b) != c.want || tool.Conflict(c.b, c.a) != c.want {
			t.Errorf("%s: conflict is not %v", name, c.want)
		}
	}
}
