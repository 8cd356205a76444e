package device

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzForm reads what strangers send; names and codes never break anything.
func FuzzForm(f *testing.F) {
	f.Add("application/json", `{"client_id":"x","device_code":7}`)
	f.Add("application/x-www-form-urlencoded", "client_id=a%20b&device_code=%zz")
	f.Add("", ";;;&&&\x00")
	f.Fuzz(func(t *testing.T, kind, body string) {
		r := httptest.NewRequest("POST", "/oauth/device/token", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		form, err := readForm(r)
		if err != nil {
			return
		}
		var d desk
		g, device, err := d.open("a", form.Get("client_id"), time.Now())
		if err != nil || !utf8.ValidString(g.keyName()) || len(g.keyName()) > 100 || strings.ContainsAny(g.keyName(), "\n\r\x1b") {
			t.Fatalf("%v %q", err, g.keyName())
		}
		if taken, _ := d.poll(form.Get("device_code"), time.Now()); taken != nil && form.Get("device_code") != device {
			t.Fatal("a key for somebody's guess")
		}
		if d.decide(form.Get("user_code"), "u", true, time.Now()) == nil && !strings.EqualFold(form.Get("user_code"), g.user) {
			t.Log("another spelling of the code")
		}
	})
}
