package api_test

import (
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"testing"
	"time"
	"sync"
	"fmt"

	"github.com/coder/websocket"
)

func TestZZChromium(t *testing.T) {
	for _, host := range []string{"", "localhost"} {
		w := newWorldWith(t, func(c *config) { c.guard.URLs.PreviewHost = host })
		s := w.sandbox()
		var mu sync.Mutex
		var seen []string
		port := inside(t, func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, r.URL.Path)
			mu.Unlock()
			switch r.URL.Path {
			case "/ws":
				c, err := websocket.Accept(rw, r, nil)
				if err == nil { _ = c.Write(r.Context(), websocket.MessageText, []byte("hi")); c.Close(1000, "") }
			case "/":
				rw.Header().Set("Content-Type", "text/html")
				pre := r.Header.Get("X-Forwarded-Prefix")
				fmt.Fprintf(rw, `<body>start<script src="%[1]s/classic.js"></script><img src="img"><script type=module src="mod.js"></script>
<form id=f method=post target=fr action="form"></form><iframe name=fr></iframe>
<script>fetch("fetch").then(r=>r.text()).then(t=>document.body.append("[fetch "+t+"]")).catch(e=>document.body.append("[nofetch]"));
var s=new WebSocket((location.origin==="null"?"ws://"+location.host:location.origin.replace("http","ws"))+"%[1]s/ws");s.onmessage=e=>document.body.append("[ws "+e.data+"]");s.onerror=e=>document.body.append("[nows]");
try{localStorage.x=1;document.body.append("[ls]")}catch(e){document.body.append("[nols]")}
fetch("/api/v1/settings",{credentials:"include"}).then(r=>document.body.append("[api "+r.status+"]")).catch(e=>document.body.append("[noapi]"));
document.getElementById("f").submit()
</script>`, pre)
			default:
				rw.Header().Set("Content-Type", "text/javascript")
				_, _ = io.WriteString(rw, `/*x*/document.body.append("[`+r.URL.Path+`]")`)
			}
		})
		link := w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/ports/"+strconv.Itoa(port)+"/ticket", nil).text("url")
		link2 := link
		if host == "" { link2 = link }
		cmd := exec.Command("timeout", "60", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--timeout=6000", "--virtual-time-budget=6000", "--dump-dom", link2)
		out, err := cmd.Output()
		_ = time.Now
		mu.Lock()
		t.Logf("%q err %v\nlink %s\nseen %q\n%s", host, err, link, seen, out)
		mu.Unlock()
	}
}
