package browser_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/internal/tool"
)

func TestOutline(t *testing.T) {
	b := newBench(t)
	b.show(`<title>The   shop</title><style>.gone{display:none} .unseen{visibility:hidden}</style>
<h1>Welcome <a href="/x?q=1#f">home</a></h1><h2>Plain</h2>
<p>Some text with <b>bold</b> and <a href="https://example.com/a">other</a> words.</p>
<p class=gone>not shown</p><p class=unseen>not shown either</p><script>/* no script */</script><noscript>no noscript</noscript>
<label>Name <input name=n placeholder="Your name" required></label>
<input aria-label="Secret" type=password value=hidden1><input aria-label="Mail" type=email value="a@b" readonly>
<input type=hidden value=x><label><input type=checkbox checked> Agree</label>
<button disabled>Send <i>now</i></button><button aria-expanded=false>Menu</button>
<select aria-label=Country><option>Chile</option><option value=p selected>Peru</option></select>
<textarea aria-label=Notes>line one
line two</textarea><div contenteditable aria-label=Rich>rich</div>
<div style="cursor:pointer">Card <span>inside</span></div><div tabindex=0>Tabbed</div><div role=tab aria-selected=true>First</div>
<div id=heard>Heard</div><script>heard.addEventListener('click', () => document.title = 'heard')</script>
<details><summary>More</summary>closed text</details><input type=file aria-label=Photo>
<table><tr><td>one</td><td>two</td></tr></table><img alt="A cat" src="data:,"><a name=anchor>no link</a>`)
	state := regexp.MustCompile(`(?m)^\[\d+\]`).ReplaceAllString(b.state(), "[n]")
	b.has(state, "The shop\n", "# Welcome\n[n] link \"home\" -> /x?q=1#f\n", "## Plain\nSome text with bold and\n[n] link \"other\" -> https://example.com/a\nwords.",
		`[n] textbox "Name" placeholder="Your name" required`, `[n] textbox "Secret" password, filled in`, `[n] textbox "Mail" email value="a@b" read-only`,
		`[n] checkbox "Agree" checked`, `[n] button "Send now" disabled`, `[n] button "Menu" not expanded`,
		`[n] combobox "Country" options (* = selected): "Chile" *"Peru"`, `[n] textbox "Notes" value="line one line two"`, `[n] textbox "Rich"`,
		`[n] clickable "Card inside"`, `"Tabbed"`, `[n] tab "First" selected`, `[n] clickable "Heard"`, `"More" collapsed`, `[n] file input "Photo" no file`,
		"one | two", "[image: A cat]", "no link")
	for _, not := range []string{"not shown", "no script", "hidden1", "closed text", "noscript"} {
		if strings.Contains(state, not) {
			t.Errorf("%q is in\n%s", not, state)
		}
	}
	b.has(b.click("Heard"), "heard")
}

// A number stays with its element, and is never another one's.
func TestNumbersStay(t *testing.T) {
	b := newBench(t)
	b.show(`<button id=one>One</button><script>function add(){let e=document.createElement('button');e.textContent='New';document.body.prepend(e)}</script><button onclick="add()">Add</button><button onclick="one.remove()">Drop</button>`)
	one := b.index("One")
	b.click("Add")
	if again := b.index("One"); again != one {
		t.Errorf("the number changed from %d to %d", one, again)
	}
	if n := b.index("New"); n == one {
		t.Error("a new element has the number of another one")
	}
	b.click("Drop")
	b.refused("click", args{"index": one}, "no element", "browser_get_state")
	b.refused("type", args{"index": 9999, "text": "x"}, "no element [9999]")
	old := b.index("Add")
	b.show(`<button>Other</button>`)
	b.refused("click", args{"index": old}, "no element")
	if n := b.index("Other"); n <= old {
		t.Errorf("the number %d was given before", n)
	}
}

func TestFields(t *testing.T) {
	b := newBench(t)
	file := b.Write("up.txt", "data")
	b.show(`<form onsubmit="document.title='sent '+new FormData(this).get('q');return false"><input name=q aria-label=Query value=old></form>
<textarea aria-label=Notes>old</textarea><div contenteditable aria-label=Rich>old</div>
<select aria-label=Size onchange="document.title='size '+this.value"><option value=s>Small</option><option value=m>Medium</option><option disabled>None</option></select>
<input type=date aria-label=Day><input type=range aria-label=Level min=0 max=10><input type=number aria-label=Count maxlength=2>
<input aria-label=Keys onkeydown="this.dataset.n=(+this.dataset.n||0)+1;document.title='keys '+this.dataset.n">
<input aria-label=Short maxlength=3><input type=file aria-label=Photo onchange="document.title='file '+this.files[0].name">
<input type=checkbox aria-label=Agree onchange="document.title='agreed '+this.checked"><input aria-label=Fixed readonly value=x>`)
	typed := func(field, text string) string {
		return b.ok("type", args{"index": b.index(`"` + field + `"`), "text": text})
	}
	b.has(typed("Query", "new words\n"), "pressed Enter", "sent new words")
	typed("Notes", "first\nsecond")
	typed("Rich", "other <b>")
	b.has(typed("Size", "medium"), `Chose "Medium"`, "size m")
	b.has(typed("Day", "2026-02-03"), "2026-02-03")
	typed("Level", "7")
	typed("Count", "12")
	b.has(typed("Keys", "abc"), "keys 3")
	b.has(typed("Short", "abcdef"), `holds "abc"`)
	b.has(typed("Photo", file), "1 files", "file up.txt")
	b.has(b.click("Agree"), "agreed true")
	state := b.state()
	b.has(state, `"Query" value="new words"`, `"Notes" value="first second"`, `"Level" value="7"`, `"Count" value="12"`, "holds up.txt", `"Agree" checked`)
	b.has(b.ok("get_content", args{}), "other <b>")
	typed("Query", "")
	if state := b.state(); strings.Contains(state, "new words") {
		t.Errorf("the field is not empty:\n%s", state)
	}
	long := strings.Repeat("long ", 2000)
	typed("Notes", long)
	b.has(b.ok("get_content", args{}), long)

	b.refused("type", args{"index": b.index("Size"), "text": "Huge"}, "no option", `"Small"`)
	b.refused("type", args{"index": b.index("Size"), "text": "None"}, "disabled")
	b.refused("type", args{"index": b.index("Day"), "text": "tomorrow"}, "does not take", "2026-12-31")
	b.refused("type", args{"index": b.index("Query"), "text": "two\nlines"}, "one line")
	b.refused("type", args{"index": b.index("Photo"), "text": "/no/such/file"}, "/no/such/file")
	b.refused("type", args{"index": b.index("Photo"), "text": "relative"}, "no absolute path")
	b.refused("type", args{"index": b.index("Agree"), "text": "x"}, "no field")
	b.refused("type", args{"index": b.index("Fixed"), "text": "x"}, "read-only")
	b.refused("click", args{"index": b.index("Size")}, "browser_type")
	b.refused("click", args{"index": b.index("Photo")}, "browser_type")
}

func TestClickNeedsTheElement(t *testing.T) {
	b := newBench(t)
	b.show(`<button disabled>Off</button><button onclick="document.title='far'" style="position:absolute;top:3000px">Far</button>
<button id=under>Under</button><div class=modal style="position:fixed;inset:0 0 50% 0;background:#eee">Cookies! <button onclick="this.parentNode.remove()">Accept</button></div>`)
	b.refused("click", args{"index": b.index("Off")}, "disabled")
	b.refused("click", args{"index": b.index("Under")}, "is covered by", "Close or click that first")
	b.click("Accept")
	b.click("Under")
	b.has(b.click("Far"), "far")
}

// What a page does to its own world does not reach ours.
func TestHostilePage(t *testing.T) {
	b := newBench(t)
	b.show(`<form><input name=childNodes aria-label=A><input name=getAttribute><input name=parentNode><input name=localName><button>In a form</button></form>
<script>Array.prototype.map = Array.prototype.push = String.prototype.replace = () => { throw 1 };
Element.prototype.getBoundingClientRect = () => ({}); JSON.stringify = () => 'evil'; window.getComputedStyle = null; delete window.WeakMap;
Object.defineProperty(Object.prototype, 'toJSON', {get(){throw 2}});</script><p>after</p>`)
	b.has(b.state(), `button "In a form"`, "after")
	b.has(b.ok("get_content", args{}), "after")
	b.click("In a form")
}

func TestFrames(t *testing.T) {
	b := newBench(t)
	inner := b.page("/inner", `<title>i</title><p>inner text</p><button onclick="parent.postMessage('pressed', '*')">Inner button</button><input aria-label="Inner field">`)
	other := strings.Replace(inner, "127.0.0.1", "localhost", 1) // another site
	b.page("/middle", `<p>middle</p><iframe src="`+inner+`" style="margin:30px;border:5px solid"></iframe>`)
	b.show(`<title>Outer</title><script>onmessage = e => document.title = e.data + ' ' + e.origin</script>
<div style="height:400px">space</div><iframe src="` + other + `"></iframe><iframe src="` + b.server.URL + `/middle" width=600 height=400></iframe><iframe src="` + inner + `" width=1 height=1></iframe>
<iframe sandbox srcdoc="<p>boxed text</p>"></iframe>
`)
	state := b.state()
	b.has(state, "Frame "+other, "Frame "+inner, "middle", "boxed text")
	if n := strings.Count(state, "Inner button"); n != 2 {
		t.Errorf("the inner button is there %d times:\n%s", n, state)
	}
	b.has(b.ok("get_content", args{}), "inner text", "middle", "boxed text", "--- Frame "+other)
	for _, m := range regexp.MustCompile(`\[(\d+)\] button "Inner button"`).FindAllStringSubmatch(state, -1) {
		b.has(b.ok("click", args{"index": m[1]}), "pressed http")
	}
	for _, m := range regexp.MustCompile(`\[(\d+)\] textbox "Inner field"`).FindAllStringSubmatch(state, -1) {
		b.ok("type", args{"index": m[1], "text": "into " + m[1]})
		b.has(b.state(), `value="into `+m[1]+`"`)
	}
}

func TestShadows(t *testing.T) {
	b := newBench(t)
	b.show(`<open-box></open-box><closed-box></closed-box><script>
const open = document.querySelector('open-box').attachShadow({mode: 'open'}); open.innerHTML = '<button>Open shadow</button><slot></slot>'; open.firstChild.onclick = () => document.title = 'open';
const shut = document.querySelector('closed-box').attachShadow({mode: 'closed'}); shut.innerHTML = '<button>Closed shadow</button>'; shut.firstChild.onclick = () => document.title = 'closed';
</script>`)
	b.has(b.state(), `button "Open shadow"`, `button "Closed shadow"`)
	b.has(b.click("Open shadow"), "open")
	b.has(b.click("Closed shadow"), "closed")
}

func TestContent(t *testing.T) {
	b := newBench(t)
	b.show(`<title>Doc</title><h1>Title</h1><p>Read <a href="/more">more <b>here</b></a>, or <a href="https://example.com/x">there</a>.</p>
<ul><li>one</li><li>two<ol><li>inner</li></ol></li></ul><blockquote><p>said</p></blockquote><pre>a
  b</pre><table><tr><th>K</th><th>V</th></tr><tr><td>a|b</td><td>1</td></tr></table><img alt=cat src=/cat.png><input value=typed><input type=password value=secret1>`)
	want := "# Title\n\nRead more here, or there.\n\n- one\n- two\n  1. inner\n\n> said\n\n```\na\n  b\n```\n\n| K | V |\n| --- | --- |\n| a\\|b | 1 |\n\n[image: cat][typed]"
	text := b.ok("get_content", args{})
	if _, got, _ := strings.Cut(text, "\n\n"); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	b.has(b.ok("get_content", args{"extract_links": true}), "[more here](/more)", "[there](https://example.com/x)", "![cat](/cat.png)")
	if strings.Contains(text, "secret1") {
		t.Error("a password is shown")
	}
	b.show("")
	b.has(b.ok("get_content", args{}), "no text")
}

func TestContentInPieces(t *testing.T) {
	b := newBench(t)
	b.show(`<script>for (let i = 0; i < 5000; i++) document.write('<p>Paragraph ' + i + ' \u00e4\u00f6 of many</p>')</script>`)
	var o struct {
		Dir string `json:"full_output_save_dir"`
	}
	first := b.OK(b.tools["get_content"], args{}, &o)
	m := regexp.MustCompile(`Characters 0 to (\d+) of (\d+)\. Go on with start_from_char (\d+)`).FindStringSubmatch(first)
	if m == nil || m[1] != "30000" || m[3] != "30000" {
		t.Fatalf("the first piece begins %q", first[:300])
	}
	whole, err := os.ReadFile(filepath.Join(o.Dir, "page.md"))
	if err != nil || !strings.Contains(string(whole), "Paragraph 4999 ") {
		t.Errorf("the whole page: %d bytes, %v", len(whole), err)
	}
	_, head, _ := strings.Cut(first, "\n\n")
	_, next, _ := strings.Cut(b.ok("get_content", args{"start_from_char": 30000}), "\n\n")
	if !strings.HasPrefix(string(whole), head+next) {
		t.Error("the pieces do not make the whole")
	}
	b.refused("get_content", args{"start_from_char": 9_999_999}, "The page has "+m[2])
}

func TestHugePage(t *testing.T) {
	b := newBench(t)
	b.show(`<title>huge</title><script>let h = ''; for (let i = 0; i < 60000; i++) h += '<p>text ' + i + ' <a href="/' + i + '">link ' + i + '</a></p>'; document.write(h)</script>`)
	begun := time.Now()
	state := b.state()
	t.Logf("the outline took %v", time.Since(begun))
	if len(state) > 30_000 {
		t.Errorf("the outline has %d bytes", len(state))
	}
	b.has(state, `link "link 5"`, "lines below are not listed", "pixels of the page's height")
	b.ok("scroll", args{"direction": "down"})
	b.ok("scroll", args{})
	b.has(b.state(), "lines above are not listed", "lines below are not listed")
	b.has(b.ok("get_content", args{}), "Characters 0 to 30000 of")
	b.show(`<script>let e = document.body || document.documentElement; for (let i = 0; i < 1500; i++) e = e.appendChild(document.createElement('div')); e.textContent = 'deep'</script><p>beside</p>`)
	b.has(b.state(), "beside")
	b.has(b.ok("get_content", args{}), "beside")
}

func TestScroll(t *testing.T) {
	b := newBench(t)
	b.show(`<div style="height:3000px">tall</div>`)
	b.has(b.ok("scroll", args{"direction": "up"}), "Already at the top")
	b.has(b.ok("scroll", args{}), "Scrolled down", "of 2")
	for range 6 {
		b.ok("scroll", args{"direction": "down"})
	}
	b.has(b.ok("scroll", args{"direction": "down"}), "Already at the end")
	b.show(`<style>body{overflow:hidden;height:100vh;margin:0}</style><div id=pane style="height:500px;overflow:auto"><div style="height:3000px">x</div></div>`)
	b.has(b.ok("scroll", args{}), "Scrolled down", "pane")
}

func TestScreenshot(t *testing.T) {
	b := newBench(t)
	b.show(`<h1>Seen</h1>`)
	var o struct {
		Content []struct {
			Type string   `json:"type"`
			URLs []string `json:"image_urls"`
		} `json:"content"`
		Data string `json:"screenshot_data"`
	}
	b.OK(b.tools["get_state"], args{"include_screenshot": true}, &o)
	if len(o.Content) != 2 || o.Content[1].Type != "image" || o.Content[1].URLs[0] != "data:image/png;base64,"+o.Data {
		t.Fatalf("content %.300v", o)
	}
	b.show(`<canvas id=c width=1280 height=800></canvas><script>let x = c.getContext('2d'), d = x.createImageData(1280, 800);
for (let i = 0; i < d.data.length; i++) d.data[i] = i % 4 == 3 ? 255 : Math.random() * 256; x.putImageData(d, 0, 0)</script>`)
	b.OK(b.tools["get_state"], args{"include_screenshot": true}, &o)
	if !strings.HasPrefix(o.Content[1].URLs[0], "data:image/jpeg;base64,") || len(o.Data) > 2<<20 {
		t.Errorf("%d bytes of %.40s", len(o.Data), o.Content[1].URLs[0])
	}
}

func TestNavigation(t *testing.T) {
	b := newBench(t)
	first, second := b.page("/first", `<title>First</title><a href=/second>go</a>`), b.page("/second", `<title>Second</title>`)
	b.mux.HandleFunc("GET /broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sorry", http.StatusBadGateway) })
	b.mux.HandleFunc("GET /nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	b.has(b.ok("navigate", args{"url": strings.TrimPrefix(first, "http://")}), "First", first)
	b.has(b.click("go"), "Second", second)
	b.has(b.ok("go_back", args{}), "First")
	b.has(b.ok("navigate", args{"url": b.server.URL + "/broken"}), "status 502")
	b.refused("navigate", args{"url": b.server.URL + "/nothing"}, "nothing to show")
	b.refused("navigate", args{"url": "http://127.0.0.1:1/"}, "could not be loaded")
	b.refused("navigate", args{"url": "http://no.such.host.invalid/"}, "could not be loaded", "ERR_")
	b.refused("navigate", args{"url": "/no/such/file.html"}, "no such file")
	b.refused("navigate", args{"url": "chrome://crash"}, "does not open chrome")
	b.refused("navigate", args{"url": "javascript:alert(1)"}, "does not open javascript")
	file := b.Write("a page.html", "<title>From a file</title>")
	b.has(b.ok("navigate", args{"url": file}), "From a file")
	b.ok("navigate", args{"url": first + "#part"})
	b.has(b.ok("navigate", args{"url": first, "new_tab": true}), "First")
	b.refused("go_back", args{}, "no page before")
}

func TestTabs(t *testing.T) {
	b := newBench(t)
	target := b.page("/target", `<title>Target</title><button onclick="window.close()">Close me</button>`)
	b.show(`<title>Opener</title><a href="` + target + `" target=_blank>Blank</a><button onclick="window.open('` + target + `')">Open</button><a href="` + target + `">Plain</a>`)
	opened := b.click("Blank")
	b.has(opened, "opened a new tab")
	b.hears(opened, "Target")
	list := b.ok("list_tabs", args{})
	ids := regexp.MustCompile(`(?m)^([0-9A-F]{4,})  (\w+)`).FindAllStringSubmatch(list, -1)
	if len(ids) != 2 || ids[0][2] != "Opener" || ids[1][2] != "Target" || !strings.Contains(list, "(active)") {
		t.Fatalf("tabs %q", list)
	}
	b.has(b.state(), "Tabs:", "Close me")
	b.has(b.ok("switch_tab", args{"tab_id": ids[0][1]}), "Opener")
	opened = b.click("Open")
	b.has(opened, "opened a new tab")
	b.hears(opened, "Target")
	b.hears(b.click("Close me"), "The tab was closed")
	b.ok("switch_tab", args{"tab_id": strings.ToLower(ids[0][1])})
	b.has(b.ok("click", args{"index": b.index("Plain"), "new_tab": true}), "Target")
	b.ok("switch_tab", args{"tab_id": ids[0][1]})
	b.has(b.ok("close_tab", args{"tab_id": ids[0][1]}), "Closed", "Target")
	b.refused("switch_tab", args{"tab_id": ids[0][1]}, "no tab", "Target")
	b.refused("close_tab", args{"tab_id": ""}, "no tab")
	for _, m := range regexp.MustCompile(`(?m)^([0-9A-F]{4,})  `).FindAllStringSubmatch(b.ok("list_tabs", args{}), -1) {
		b.ok("close_tab", args{"tab_id": m[1]})
	}
	b.has(b.ok("list_tabs", args{}), "about:blank", "(active)")
	b.show(`still works`)
}

func TestDialogs(t *testing.T) {
	b := newBench(t)
	b.page("/loud", `<title>loud</title><script>alert('at once')</script>`)
	b.show(`<script>addEventListener('beforeunload', e => { e.preventDefault(); e.returnValue = 'x' })</script>
<button onclick="alert('hello\nthere')">Alert</button><button onclick="document.title = 'confirmed ' + confirm('Sure?')">Confirm</button>
<button onclick="document.title = 'named ' + prompt('Name?', 'nobody')">Prompt</button><button onclick="window.open('/loud')">Loud</button>
<button onclick="for (let i = 0; i < 50; i++) alert(i)">Many</button>`)
	b.has(b.click("Alert"), `alert: "hello there"`)
	b.has(b.click("Confirm"), `"Sure?"`, "accepted", "confirmed true")
	b.has(b.click("Prompt"), `"Name?"`, "named nobody")
	b.hears(b.click("Many"), "more things happened")
	opener := regexp.MustCompile(`(?m)^([0-9A-F]{4,})  `).FindStringSubmatch(b.ok("list_tabs", args{}))[1]
	b.hears(b.click("Loud"), `alert: "at once"`)
	b.ok("switch_tab", args{"tab_id": opener})
	b.hears(b.show("left"), "it was left")
}

func TestDownloads(t *testing.T) {
	b := newBench(t)
	b.mux.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../../evil name.bin"`)
		_, _ = w.Write([]byte("payload"))
	})
	b.has(b.ok("navigate", args{"url": b.server.URL + "/file"}), "is a download", "The download is complete", b.Path("downloads"))
	b.show(`<a href="/file">Get it</a>`)
	b.hears(b.click("Get it"), "The download is complete")
	names := b.Tree()
	if len(names) != 2 || filepath.Dir(names[1]) != "downloads" {
		t.Fatalf("the working directory holds %q", names)
	}
	b.Holds(names[1], "payload")
}

func TestStorage(t *testing.T) {
	b := newBench(t)
	hits := 0
	b.mux.HandleFunc("GET /unseen", func(http.ResponseWriter, *http.Request) { hits++ })
	page := b.page("/site", `<title>s</title><script>document.title = localStorage.seen + ' ' + document.cookie</script>`)
	b.mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) { hits++ })
	state := args{
		"cookies": []any{args{"name": "a", "value": "b=c", "domain": "127.0.0.1", "path": "/", "expires": -1}},
		"origins": []any{args{"origin": b.server.URL, "localStorage": []any{args{"name": "seen", "value": "yes"}}}},
	}
	b.has(b.ok("set_storage", args{"storage_state": state}), "1 cookies", "1 origins")
	if hits != 0 {
		t.Errorf("the server was asked %d times", hits)
	}
	b.has(b.ok("list_tabs", args{}), "about:blank")
	b.has(b.ok("navigate", args{"url": page}), "yes a=b=c")
	got := b.ok("get_storage", args{})
	b.has(got, `"name":"a","value":"b=c","domain":"127.0.0.1"`, `"origin":"`+b.server.URL+`"`, `"localStorage":[{"name":"seen","value":"yes"}]`)
	b.has(b.ok("set_storage", args{"storage_state": got}), "1 cookies") // its own form, even as a text
	b.refused("set_storage", args{"storage_state": args{"cookies": []any{args{"name": "x", "value": "y", "domain": "a.org", "expires": 1000}}}}, `does not take the cookie "x"`)
	for _, bad := range []string{`{"origins":[{"origin":"nonsense"}]}`, `{"cookies":[{"name":"a","value":"b"}]}`, `{"cookies":[{"name":"a","value":"b","domain":"c","sameSite":"Wrong"}]}`} {
		if _, err := b.tools["set_storage"].Parse([]byte(`{"storage_state":` + bad + `}`)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestRecording(t *testing.T) {
	b := newBench(t)
	b.refused("stop_recording", args{}, "No recording")
	b.ok("start_recording", args{})
	b.refused("start_recording", args{}, "runs already")
	b.show(`<h1 id=h>0</h1><script>setInterval(() => h.textContent++, 20)</script>`)
	b.ok("navigate", args{"url": b.page("/tab", "<h1>in a new tab</h1>"), "new_tab": true})
	var o struct {
		Dir string `json:"full_output_save_dir"`
	}
	text := b.OK(b.tools["stop_recording"], args{}, &o)
	b.has(text, "index.html", b.Path("recordings"))
	page, err := os.ReadFile(filepath.Join(o.Dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	pictures := regexp.MustCompile(`"file":"(\d+\.jpg)"`).FindAllSubmatch(page, -1)
	if len(pictures) < 3 {
		t.Errorf("%d pictures: %s", len(pictures), text)
	}
	for _, p := range pictures {
		if data, err := os.ReadFile(filepath.Join(o.Dir, string(p[1]))); err != nil || http.DetectContentType(data) != "image/jpeg" {
			t.Errorf("%s: %v", p[1], err)
		}
	}
	b.has(b.ok("navigate", args{"url": filepath.Join(o.Dir, "index.html")}), "Recording")
	b.has(b.click("Play"), "Recording")
}

// Two conversations do not see each other's browser.
func TestConversationsAreApart(t *testing.T) {
	b := newBench(t)
	other := *b.Env
	other.ConversationID += "-2"
	t.Cleanup(func() { _ = os.RemoveAll(other.StateDir()) })
	second := inBox(t, b.browsers, &other)
	done := make(chan struct{})
	go func() {
		defer close(done)
		second.ok("navigate", args{"url": "data:text/html,<title>second</title>"})
	}()
	b.ok("navigate", args{"url": "data:text/html,<title>first</title>"})
	<-done
	for i, bench := range []*bench{b, second} {
		b.has(bench.ok("list_tabs", args{}), []string{"first", "second"}[i])
	}
}

func TestSpecs(t *testing.T) {
	b := bare(t)
	names := map[string]bool{}
	for _, tl := range b.browsers.Tools() {
		spec := tl.Spec()
		names[spec.Name] = true
		if spec.ObservationKind != "BrowserObservation" || !strings.HasPrefix(spec.ActionKind, "Browser") || !strings.HasPrefix(spec.Kind, "Browser") ||
			len(spec.Description) < 40 {
			t.Errorf("%+v", spec)
		}
		claims := tl.Claims([]byte(`{}`))
		if len(claims) != 1 || claims[0] != (tool.Claim{Name: "browser", Write: true}) && spec.Name == "browser_scroll" {
			t.Errorf("%s claims %v", spec.Name, claims)
		}
	}
	if len(names) != 14 {
		t.Errorf("the tools are %v", names)
	}
	action, err := b.tools["navigate"].Parse([]byte(`{"url":"x.org"}`))
	if want := `{"url":"x.org","new_tab":false,"kind":"BrowserNavigateAction"}`; err != nil || string(action) != want {
		t.Errorf("action %s, %v", action, err)
	}
	if _, err := b.tools["click"].Parse([]byte(`{"index":-1}`)); err == nil {
		t.Error("a negative number is accepted")
	}
	if _, err := b.tools["scroll"].Parse([]byte(`{"direction":"left"}`)); err == nil {
		t.Error("a third direction is accepted")
	}
}

// Servers under development have certificates that nobody signed; a page that wants a
// password must not wedge.
func TestDevelopmentServers(t *testing.T) {
	b := newBench(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>Let in</title>"))
	})
	b.mux.Handle("GET /locked", handler)
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	b.refused("navigate", args{"url": b.server.URL + "/locked"}, "wants a name and a password")
	b.has(b.ok("navigate", args{"url": strings.Replace(secure.URL, "https://", "https://user:pass@", 1)}), "Let in")
}
