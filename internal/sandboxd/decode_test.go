package sandboxd

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/fault"
)

// wantRefusal checks that what a decoder does not take is the caller's mistake.
func wantRefusal(t *testing.T, err error) {
	t.Helper()
	if kind := fault.KindOf(err); err != nil && kind != fault.Invalid {
		t.Fatalf("%v: %v", kind, err)
	}
}

func FuzzDecodeExec(f *testing.F) {
	f.Add([]byte(`{"argv":["true"],"dir":"/","env":{"A":"b"},"stdin":"eA==","timeout":1,"max_output":2}`))
	f.Add([]byte(`{"argv":[""]}`))
	f.Add([]byte(`{"argv":["a\u0000"],"max_output":-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeExec(body)
		wantRefusal(t, err)
		if err == nil && (len(req.Argv) == 0 || req.Timeout < 0 || req.MaxOutput <= 0 || req.MaxOutput > MaxOutputBytes) {
			t.Fatalf("%+v", req)
		}
	})
}

func FuzzDecodeOpen(f *testing.F) {
	f.Add([]byte(`{"id":"other","argv":["bash"],"rows":24,"cols":80}`), "main")
	f.Add([]byte(`{"rows":-1}`), "..")
	f.Fuzz(func(t *testing.T, body []byte, id string) {
		req, err := decodeOpen(body, id)
		wantRefusal(t, err)
		if err == nil && (req.ID != id || id == "" || strings.ContainsAny(id, "/?#%\x00") || len(id) > 128) {
			t.Fatalf("%+v", req)
		}
	})
}

func FuzzDecodeQuery(f *testing.F) {
	f.Add("offset=1&wait=2&max=3&until=x&path=/a/../b&new=1")
	f.Add("offset=-1")
	f.Add("path=%00&max=99999999999999999999")
	f.Fuzz(func(t *testing.T, raw string) {
		req, err := decodeRead(raw)
		wantRefusal(t, err)
		if err == nil && (req.Offset < 0 || req.Wait < 0 || req.Wait > maxWait || req.Max < 1 || req.Max > maxTerminalRead || len(req.Until) > maxUntil) {
			t.Fatalf("%+v", req)
		}
		q := parseQuery(raw)
		path, on, limit := q.path("path"), q.flag("new"), tarLimit(q)
		wantRefusal(t, q.err)
		if q.err == nil && (!filepath.IsAbs(path) || filepath.Clean(path) != path || len(path) >= maxPath || limit < 1 || limit > MaxTarBytes) {
			t.Fatalf("%q %v %d", path, on, limit)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a (b) c) S 1 12 13 0 -1"))
	f.Add([]byte("12 () Z 1 12 13"))
	f.Add([]byte(")("))
	f.Fuzz(func(_ *testing.T, stat []byte) { parseStat(stat) })
}

func TestParseStat(t *testing.T) {
	got, ok := parseStat([]byte("12 (a) S 9 (b) Z 34 56 78 0 -1 4194560"))
	if want := (process{pid: 12, parent: 34, group: 56, session: 78, dead: true}); !ok || got != want {
		t.Fatalf("%+v %v", got, ok)
	}
}

func FuzzUnpack(f *testing.F) {
	for _, headers := range [][]tar.Header{
		{{Name: "a/b", Typeflag: tar.TypeReg, Size: 3}, {Name: "a", Typeflag: tar.TypeDir}},
		{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "l/outside", Typeflag: tar.TypeReg, Size: 3}},
		{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l"}},
		{{Name: "../outside", Typeflag: tar.TypeReg, Size: 3}},
		{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside"}, {Name: "h", Typeflag: tar.TypeReg, Size: 3}},
		{{Name: strings.Repeat("x/", 200) + "y", Typeflag: tar.TypeReg, Size: 3, Format: tar.FormatPAX}},
	} {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, header := range headers {
			header.Mode = 0o644
			if err := w.WriteHeader(&header); err != nil {
				f.Fatal(err)
			}
			if _, err := w.Write([]byte("new")[:header.Size]); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(buf.Bytes())
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		const limit = 1 << 16
		top := t.TempDir()
		outside := filepath.Join(top, "outside")
		if err := os.WriteFile(outside, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := unpackInto(context.Background(), filepath.Join(top, "in"), bytes.NewReader(archive), limit)
		if kind := fault.KindOf(err); err != nil && kind == fault.Internal {
			t.Fatalf("%v: %v", kind, err)
		}
		checkOutside(t, top, outside)
		checkSize(t, filepath.Join(top, "in"), limit)
	})
}

func checkOutside(t *testing.T, top, outside string) {
	t.Helper()
	info, err := os.Lstat(outside)
	if err != nil || !info.Mode().IsRegular() || info.Mode() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "old" {
		t.Fatalf("%q %v", text, err)
	}
	if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
		t.Fatalf("%v %v", entries, err)
	}
}

func checkSize(t *testing.T, dir string, limit int64) {
	t.Helper()
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			total += info.Size()
		}
		return nil
	})
	// Hard links count their content once more each, at no cost.
	if err != nil || total > 64*limit {
		t.Fatalf("%d bytes, %v", total, err)
	}
}

// The ring is a window on the end of all that was written.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRing(1)
		if r.max != minTerminalBuffer {
			t.Fatalf("max %d", r.max)
		}
		var all []byte
		next := byte(0)
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			p := make([]byte, rapid.IntRange(0, 2*minTerminalBuffer).Draw(t, "size"))
			for i := range p {
				next = next*5 + 17
				p[i] = next
			}
			r.write(p)
			all = append(all, p...)
			checkRing(t, &r, all)
		}
	})
}

func checkRing(t *rapid.T, r *ring, all []byte) {
	if r.end != int64(len(all)) || r.start != max(0, r.end-int64(r.max)) || len(r.buf) > r.max {
		t.Fatalf("[%d, %d) of %d bytes", r.start, r.end, len(all))
	}
	from := rapid.Int64Range(r.start, r.end).Draw(t, "from")
	to := rapid.Int64Range(from, r.end).Draw(t, "to")
	if got := r.copy(from, to); !bytes.Equal(got, all[from:to]) {
		t.Fatalf("[%d, %d) differs", from, to)
	}
	size := rapid.Int64Range(1, 40).Draw(t, "pattern")
	if at := rapid.Int64Range(r.start, r.end).Draw(t, "at"); at+size <= r.end {
		pattern := all[at : at+size]
		if got, want := r.contains(pattern, from, to), bytes.Contains(all[from:to], pattern); got != want {
			t.Fatalf("contains %v, want %v", got, want)
		}
	}
}

func FuzzDecodeSearch(f *testing.F) {
	f.Add([]byte(`{"root":"/","names":"**/*.go","text":"(a|b)+c{2}$","max":1,"timeout":1}`), []byte("ab\r\nacc\nb"))
	f.Add([]byte(`{"root":"/x","text":"^$"}`), []byte("\n\n"))
	f.Add([]byte(`{"root":"/x","text":"[^a]\\s\\z"}`), []byte("b \xff"))
	f.Fuzz(func(t *testing.T, body, text []byte) {
		s, err := newFinder(body)
		wantRefusal(t, err)
		if err != nil || s.text == nil || bytes.IndexByte(text, 0) >= 0 || len(text) == 0 {
			return
		}
		found, err := s.text.inText(t.Context(), bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if want := matchesALine(s.text.re, text); found != want {
			t.Fatalf("%s in %q: %v, line by line %v", body, text, found, want)
		}
	})
}

// matchesALine is the slow way.
func matchesALine(re *regexp.Regexp, text []byte) bool {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		if re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			return true
		}
	}
	return false
}

func FuzzDecodeChange(f *testing.F) {
	f.Add([]byte(`{"root":"/a","changes":[{"path":"/a/b","data":"eA==","mode":511,"before":"AA=="},{"path":"/a/../c","remove":true}]}`))
	f.Add([]byte(`{"root":"a","changes":[{"path":"b"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeChange(body)
		wantRefusal(t, err)
		for _, c := range req.Changes {
			if err == nil && (!filepath.IsAbs(c.Path) || c.Mode&^fs.ModePerm != 0) {
				t.Fatalf("%+v", req)
			}
		}
	})
}

func FuzzDecodeProgram(f *testing.F) {
	f.Add([]byte(`{"argv":["cat","-"],"dir":"/","env":{"A":"b"}}`))
	f.Add([]byte(`{"argv":["a\u0000"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeProgram(body)
		wantRefusal(t, err)
		if err == nil && (len(req.Argv) == 0 || req.Argv[0] == "") {
			t.Fatalf("%+v", req)
		}
	})
}

// frames feeds a stream to accept until it ends or is refused.
func frames(stream []byte, accept func(frame) error) error {
	r := newFrameReader(bytes.NewReader(stream))
	for {
		f, err := readFrame(r)
		if err == nil {
			err = accept(f)
		}
		if err != nil {
			return err
		}
	}
}

func addFrames(f *testing.F) {
	f.Add([]byte("i\x00\x00\x00\x02hie\x00\x00\x00\x00"))
	f.Add([]byte("o\x00\x00\x00\x02hir\x00\x00\x00\x03errf\x00\x00\x00\x00g\x00\x00\x00\x00x\x00\x00\x00\x04\x00\x00\x00\x07"))
	f.Add([]byte("m\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Add([]byte("i\xff\xff\xff\xff"))
	f.Add([]byte("x\x00\x00\x00\x01"))
}

// What a client sends never takes more memory than a window, nor gives it the right
// to more.
func FuzzFramesOfAClient(f *testing.F) {
	addFrames(f)
	f.Fuzz(func(t *testing.T, stream []byte) {
		p := &program{input: newInbox(), room: newCredit()}
		if err := frames(stream, p.accept); err == nil {
			t.Fatal("no end")
		}
		checkWindow(t, p.input, p.room)
	})
}

// Nor does what a daemon sends.
func FuzzFramesOfADaemon(f *testing.F) {
	addFrames(f)
	f.Fuzz(func(t *testing.T, stream []byte) {
		p := newProgramConn(nil)
		if err := frames(stream, p.accept); err == nil {
			t.Fatal("no end")
		}
		checkWindow(t, p.output, p.room)
		if code := p.ExitCode(); code < -1 || code > 255 || p.hasEnded() != (code >= 0) || len(p.Stderr()) > stderrTail {
			t.Fatalf("code %d, ended %v, %d bytes of standard error", code, p.hasEnded(), len(p.Stderr()))
		}
	})
}

func checkWindow(t *testing.T, in *inbox, room *credit) {
	t.Helper()
	if in.buf.Len() > programWindow || room.n > programWindow {
		t.Fatalf("%d bytes held, %d may be sent", in.buf.Len(), room.n)
	}
}

// What is sent is what is read, frame by frame.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 3000), 1, 20).Draw(t, "payloads")
		var stream bytes.Buffer
		w := frameWriter{conn: &stream}
		for i, payload := range sent {
			if err := w.send(byte(i), payload); err != nil {
				t.Fatal(err)
			}
		}
		next := 0
		err := frames(stream.Bytes(), func(f frame) error {
			if f.kind != byte(next) || !bytes.Equal(f.payload, sent[next]) {
				t.Fatalf("frame %d is %v %q", next, f.kind, f.payload)
			}
			next++
			return nil
		})
		if !errors.Is(err, io.EOF) || next != len(sent) {
			t.Fatalf("%d of %d frames, %v", next, len(sent), err)
		}
		cut := rapid.IntRange(1, stream.Len()-1).Draw(t, "cut")
		whole, end := false, 0
		for _, payload := range sent {
			end += frameHeader + len(payload)
			whole = whole || end == cut
		}
		err = frames(stream.Bytes()[:cut], func(frame) error { return nil })
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[whole]; !errors.Is(err, want) {
			t.Fatalf("cut at %d: %v, want %v", cut, err, want)
		}
	})
}

// A sender who keeps to its credit never overfills the other side, loses nothing and
// never gets stuck.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, room := newInbox(), newCredit()
		sent, got := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if want := rapid.IntRange(1, programWindow).Draw(t, "send"); room.n > 0 {
				n, err := room.take(want)
				if err != nil || in.put(make([]byte, n)) != nil {
					t.Fatalf("%d bytes are refused: %v", n, err)
				}
				sent += n
			}
			n, more, err := in.read(make([]byte, rapid.IntRange(1, programWindow).Draw(t, "read")))
			if err != nil || room.give(more) != nil {
				t.Fatalf("%d more are refused: %v", more, err)
			}
			if got += n; got == sent && room.n == 0 {
				t.Fatal("all was read and nothing may be sent")
			}
			if got == sent {
				continue
			}
			checkHeld(t, in, room, sent-got)
		}
	})
}

func checkHeld(t *rapid.T, in *inbox, room *credit, held int) {
	if in.buf.Len() != held || in.buf.Len()+in.used+room.n != programWindow {
		t.Fatalf("%d bytes held (want %d), %d not told, %d may be sent", in.buf.Len(), held, in.used, room.n)
	}
}

// The tree of a program: who descends from it, and who is in a session of such a one.
func TestTreeMembers(t *testing.T) {
	ended := make(chan struct{})
	tr := newTree(10, ended)
	running := []process{
		{pid: 1, group: 1, session: 1},
		{pid: 13, parent: 12, group: 12, session: 12}, // before its parent in the table
		{pid: 10, parent: 1, group: 10, session: 10},
		{pid: 11, parent: 10, group: 11, session: 10},
		{pid: 12, parent: 11, group: 12, session: 12},
		{pid: 14, parent: 1, group: 14, session: 10}, // has lost its parent
		{pid: 20, parent: 1, group: 20, session: 20},
	}
	wantMembers(t, tr.members(running, false), 10, 11, 12, 13, 14)
	orphans := []process{{pid: 13, parent: 1, group: 12, session: 12}, {pid: 14, parent: 1, group: 14, session: 10}, {pid: 20, parent: 1, session: 20}}
	wantMembers(t, tr.members(orphans, true), 13, 14)
	recycled := []process{{pid: 10, parent: 1, group: 10, session: 10}, {pid: 13, parent: 1, group: 12, session: 12}}
	wantMembers(t, tr.members(recycled, true), 13)
}

func wantMembers(t *testing.T, got []process, want ...int) {
	t.Helper()
	pids := []int{}
	for _, p := range got {
		pids = append(pids, p.pid)
	}
	slices.Sort(pids)
	if !slices.Equal(pids, want) {
		t.Errorf("got %v, want %v", pids, want)
	}
}

func FuzzDecodeConsole(f *testing.F) {
	f.Add([]byte(`{"argv":["bash"],"rows":24,"cols":80}`), []byte{0, 24, 0, 80})
	f.Add([]byte(`{"rows":70000}`), []byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, body, size []byte) {
		req, err := decodeConsole(body)
		wantRefusal(t, err)
		if err == nil && len(req.Argv) > 0 && req.Argv[0] == "" {
			t.Fatalf("%+v", req)
		}
		if rows, cols, err := (frame{kind: frameSize, payload: size}).size(); err == nil && (rows == 0 || cols == 0 || len(size) != 4) {
			t.Fatalf("%d x %d of %v", rows, cols, size)
		}
	})
}
