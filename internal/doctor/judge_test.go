package doctor

import "testing"

func TestJudgeDisk(t *testing.T) {
	tests := map[string]struct {
		free, inodes int64
		counted      bool
		want         Level
	}{
		"plenty":      {100 << 30, 1e6, true, OK},
		"full":        {1 << 20, 1e6, true, Missing},
		"low":         {1 << 30, 1e6, true, Limited},
		"no inodes":   {100 << 30, 0, true, Missing},
		"few inodes":  {100 << 30, 2000, true, Limited},
		"not counted": {100 << 30, 0, false, OK},
	}
	for name, test := range tests {
		if f := judgeDisk("/x", test.free, test.inodes, test.counted); f.Level != test.want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestJudgeOpenFiles(t *testing.T) {
	for limit, want := range map[uint64]Level{100: Missing, 1024: Limited, 20000: OK} {
		if f := judgeOpenFiles(limit); f.Level != want {
			t.Errorf("%d: %+v", limit, f)
		}
	}
}
