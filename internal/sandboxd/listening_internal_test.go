package sandboxd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/tool"
)

// kernelLine is a line of the kernel's list of sockets.
func kernelLine(addr string, state string, uid int) string {
	at := netip.MustParseAddrPort(addr)
	raw := at.Addr().AsSlice()
	for word := raw; len(word) > 0; word = word[4:] {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	return fmt.Sprintf("   0: %X:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000 %5d        0 1592 1 0 100 0 0 10 0\n", raw, at.Port(), state, uid)
}

func TestOnlyWhatCanBeReachedListens(t *testing.T) {
	list := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		kernelLine("127.0.0.1:8000", "0A", 1000) +
		kernelLine("0.0.0.0:80", "0A", 0) +
		kernelLine("127.0.0.53:53", "0A", 0) + // DialPort does not try it
		kernelLine("10.0.0.2:81", "0A", 0) +
		kernelLine("127.0.0.1:8001", "01", 0) + // a connection
		kernelLine("[::1]:8000", "0A", 1000) +
		kernelLine("[::]:9000", "0A", 7) +
		kernelLine("[::ffff:127.0.0.1]:9001", "0A", 7) +
		kernelLine("127.0.0.1:80", "0A", 0) +
		"   1: 0100007F:XXXX 0 0A 0 0 0 0\n" + strings.Repeat("x", 10_000) + "\n" +
		kernelLine("127.0.0.1:9002", "0A", 7)
	found := map[int]tool.ListeningPort{}
	if err := addListening(strings.NewReader(list), found); err != nil {
		t.Fatal(err)
	}
	want := []tool.ListeningPort{{Port: 80, UID: 0}, {Port: 8000, Loopback: true, UID: 1000}, {Port: 9000, UID: 7},
		{Port: 9001, Loopback: true, UID: 7}, {Port: 9002, Loopback: true, UID: 7}}
	if got := sortedPorts(found); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func FuzzListeningSockets(f *testing.F) {
	f.Add([]byte(kernelLine("127.0.0.1:8000", "0A", 1000)))
	f.Add([]byte(kernelLine("[::]:1", "0A", 0)))
	f.Add([]byte("0: :0 0 0A 0 0 0 0"))
	f.Fuzz(func(t *testing.T, list []byte) {
		found := map[int]tool.ListeningPort{}
		if err := addListening(bytes.NewReader(list), found); err != nil {
			t.Fatal(err)
		}
		for port, p := range found {
			if port != p.Port || port < 1 || port > 0xffff || p.UID < 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func FuzzDecodeListening(f *testing.F) {
	f.Add([]byte(`[{"port":80,"loopback":true,"uid":0},{"port":80}]`))
	f.Add([]byte(`[{"port":70000}]`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := decodeListening(body)
		if err != nil {
			if fault.KindOf(err) != fault.Internal {
				t.Fatal(err)
			}
			return
		}
		ascending := slices.IsSortedFunc(list, func(a, b tool.ListeningPort) int { return a.Port - b.Port })
		if len(list) > maxListening || !ascending || len(list) > 0 && (list[0].Port < 1 || list[len(list)-1].Port > 0xffff) {
			t.Fatalf("%+v", list)
		}
	})
}
