package image_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

const secret = "s3cr3t-word"

func credentials(t *testing.T, host, entry string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"auths": {%q: %s, "other.example.com": {"auth": "!"}}}`, host, entry), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// guarded makes a hub want a token, which its /token gives to whom ok lets.
func guarded(h *hub, ok func(r *http.Request) bool) {
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			_ = r.ParseForm()
			if !ok(r) || r.Form.Get("scope") != "repository:x/y:pull" || r.Form.Get("service") != "the, hub" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			_, _ = w.Write([]byte(`{"access_token": "t0k"}`))
			return true
		}
		if r.Header.Get("Authorization") == "Bearer t0k" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+h.url+`/token",service="the, hub",scope="repository:other:push"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

func TestCredentials(t *testing.T) {
	user := fmt.Sprintf(`{"auth": %q}`, base64.StdEncoding.EncodeToString([]byte("me:"+secret)))
	for name, c := range map[string]struct {
		entry string // "" = no file
		ok    func(r *http.Request) bool
		basic bool
		works bool
	}{
		"a token for everybody":      {"", func(r *http.Request) bool { return r.Header.Get("Authorization") == "" }, false, true},
		"a token for a user":         {user, func(r *http.Request) bool { return r.Header.Get("Authorization") == basic("me", secret) }, false, true},
		"a token for a token":        {`{"identitytoken": "` + secret + `"}`, func(r *http.Request) bool { return r.Method == "POST" && r.PostForm.Get("refresh_token") == secret }, false, true},
		"a password":                 {user, nil, true, true},
		"a password in two members":  {`{"username": "me", "password": "` + secret + `"}`, nil, true, true},
		"no credentials":             {"", func(*http.Request) bool { return false }, false, false},
		"no password":                {"", nil, true, false},
		"wrong credentials":          {user, func(*http.Request) bool { return false }, false, false},
		"a wrong password":           {`{"username": "me", "password": "wrong"}`, nil, true, false},
		"a file that is none":        {`nonsense` + secret, nil, true, false},
		"an entry that is no base64": {`{"auth": "?` + secret + `"}`, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
			if guarded(h, c.ok); c.basic {
				h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Header.Get("Authorization") == basic("me", secret) {
						return false
					}
					w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
					w.WriteHeader(http.StatusUnauthorized)
					return true
				})
			}
			o := h.options(t.TempDir())
			if c.entry != "" {
				o.Credentials = credentials(t, "https://"+h.host+"/v1/", c.entry)
			}
			s := open(t, o)
			if c.works {
				get(t, s, ref)
				return
			}
			_, err := s.Get(t.Context(), image.Request{Ref: ref})
			text := fault.PublicText(err)
			code := fault.CodeOf(err)
			if code != image.CodeUnauthorized && code != image.CodeCredentials || strings.Contains(fmt.Sprint(err, text), secret) {
				t.Errorf("%v", err)
			}
			if c.entry == "" && !strings.Contains(text, "docker login "+h.host) {
				t.Errorf("it does not say how to configure: %s", text)
			}
		})
	}
}

// What opens a registry is for it alone: storage that it leads to gets nothing.
func TestCredentialsGoNowhereElse(t *testing.T) {
	h, storage := newHub(t), newHub(t)
	p := &picture{layers: [][]byte{layerOf(t, file("a", "a"))}}
	ref := h.push("x/y", "1", p)
	var seen atomic.Value
	storage.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		seen.Store(r.Header.Get("Authorization"))
		_, _ = w.Write(p.blobs[0])
		return true
	})
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Header.Get("Authorization") != basic("me", secret):
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		case strings.HasSuffix(r.URL.Path, digest(p.blobs[0])):
			http.Redirect(w, r, storage.url+"/anywhere", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	o := h.options(t.TempDir())
	o.Insecure = append(o.Insecure, storage.host)
	o.Credentials = credentials(t, h.host, `{"username": "me", "password": "`+secret+`"}`)
	get(t, open(t, o), ref)
	if seen.Load() != "" {
		t.Errorf("the storage got %v", seen.Load())
	}
}

func TestWhichCredentials(t *testing.T) {
	entry := func(user string) string { return fmt.Sprintf(`{"username": %q, "password": "p"}`, user) }
	data := fmt.Appendf(nil, `{"auths": {"https://index.docker.io/v1/": %s, "ghcr.io": %s, "ghcr.io/org": %s, "ghcr.io/org/app": {}, "b.io": {"auth": "%s"}}, "credsStore": "desktop"}`,
		entry("hub"), entry("gh"), entry("org"), base64.StdEncoding.EncodeToString([]byte("u:p:q")))
	for where, want := range map[string]string{
		"index.docker.io library/debian": "hub:p:", "docker.io a/b": "hub:p:", "ghcr.io x/y": "gh:p:", "ghcr.io org/app": "org:p:",
		"ghcr.io organisation/x": "gh:p:", "quay.io a/b": "::", "evil-ghcr.io a/b": "::", "b.io x": "u:p:q:",
	} {
		registry, repository, _ := strings.Cut(where, " ")
		if got, err := image.PickCredential(data, registry, repository); got != want || err != nil {
			t.Errorf("%s: %q %v", where, got, err)
		}
	}
}

// The server reaches public addresses, and others only where the operator says so:
// neither a name, nor a redirect, nor a token server leads further.
func TestAddresses(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	defer inner.Close()
	host := strings.TrimPrefix(inner.URL, "http://")
	t.Run("a registry", func(t *testing.T) {
		for _, ref := range []string{host + "/x/y", "localhost:" + host[strings.LastIndex(host, ":")+1:] + "/x", "169.254.169.254/x/y", "[::1]:5000/x/y"} {
			refused(t, open(t, image.Options{Dir: t.TempDir()}.Quick(1e9)), ref, fault.Forbidden, image.CodeRefused)
		}
	})
	redirect := func(to string) (*image.Store, string) {
		h := newHub(t)
		p := &picture{layers: [][]byte{layerOf(t, file("a", "a"))}}
		ref := h.push("x/y", "1", p)
		h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, to, http.StatusFound)
				return true
			}
			return false
		})
		return open(t, h.options(t.TempDir())), ref
	}
	for name, to := range map[string]string{"a redirect": "https://" + host + "/x", "a redirect without TLS": inner.URL, "a redirect to the metadata": "https://169.254.169.254/latest",
		"a redirect to a file": "file:///etc/passwd"} {
		t.Run(name, func(t *testing.T) {
			s, ref := redirect(to)
			refused(t, s, ref, fault.Forbidden, image.CodeRefused)
		})
	}
	for _, realm := range []string{"https://" + host + "/token", inner.URL} {
		t.Run("a token server "+realm[:5], func(t *testing.T) {
			h := newHub(t)
			h.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
			refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y", fault.Forbidden, image.CodeRefused)
		})
	}
}

func TestAllowedHosts(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "https://")
	o := image.Options{Dir: t.TempDir(), AllowHosts: []string{"127.0.0.1"}}.Quick(1e9)
	// It is reached; its certificate is another matter.
	if text := refused(t, open(t, o), host+"/x/y", fault.Unavailable, image.CodeRegistry); !strings.Contains(text, host) {
		t.Error(text)
	}
}

func TestAProxyIsUsed(t *testing.T) {
	h := newHub(t)
	h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
	proxy, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	o := image.Options{Dir: t.TempDir(), Insecure: []string{"registry.invalid:80"}, Proxy: http.ProxyURL(proxy)}.Quick(1e9)
	get(t, open(t, o), "registry.invalid:80/x/y:1")
}

func TestWhatRegistriesAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		kind   fault.Kind
		code   string
		tries  int
	}{
		"no such image":     {404, fault.Invalid, image.CodeNotInSource, 1},
		"forbidden":         {403, fault.Forbidden, image.CodeUnauthorized, 1},
		"401 without words": {401, fault.Forbidden, image.CodeUnauthorized, 1},
		"too many":          {429, fault.RateLimited, image.CodeRate, 4},
		"a problem":         {503, fault.Unavailable, image.CodeRegistry, 4},
		"a teapot":          {418, fault.Unavailable, image.CodeRegistry, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(c.status)
				return true
			})
			refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y", c.kind, c.code)
			if n := h.count("/manifests/"); n != c.tries {
				t.Errorf("%d tries", n)
			}
		})
	}
	t.Run("one that is not there", func(t *testing.T) {
		h := newHub(t)
		h.server.Close()
		if text := refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y", fault.Unavailable, image.CodeRegistry); !strings.Contains(text, "connection refused") {
			t.Error(text)
		}
	})
	t.Run("a name that is none", func(t *testing.T) {
		refused(t, open(t, image.Options{Dir: t.TempDir()}.Quick(1e9)), "no-such-host.invalid/x/y", fault.Unavailable, image.CodeRegistry)
	})
	t.Run("a problem that passes", func(t *testing.T) {
		h := newHub(t)
		ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
		var n atomic.Int32
		h.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if n.Add(1)%3 == 0 {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		get(t, open(t, h.options(t.TempDir())), ref)
	})
	t.Run("a pull that takes too long", func(t *testing.T) {
		h := newHub(t)
		h.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		o := h.options(t.TempDir())
		o.PullTimeout = 20e6
		refused(t, open(t, o), h.host+"/x/y", fault.Timeout, image.CodeRegistry)
	})
}

func TestPlatforms(t *testing.T) {
	h := newHub(t)
	manifests := map[string]object{}
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		p := &picture{arch: arch, layers: [][]byte{layerOf(t, file("arch", arch))}}
		h.push("x/y", arch, p)
		_, m := (&picture{arch: arch, layers: p.layers}).documents()
		manifests[arch] = object{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": len(m), "digest": digest(m),
			"platform": object{"os": "linux", "architecture": arch}}
	}
	attestation := object{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2, "digest": manifests["riscv64"]["digest"],
		"platform": object{"os": "unknown", "architecture": "unknown"}, "annotations": object{"vnd.docker.reference.type": "attestation-manifest"}}
	index := func(tag string, list ...object) string {
		h.put(http.MethodPut, "/v2/x/y/manifests/"+tag, "application/vnd.oci.image.index.v1+json",
			asJSON(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": list}))
		return h.host + "/x/y:" + tag
	}
	all := index("all", attestation, manifests["amd64"], manifests["arm64"])
	for _, arch := range []string{"amd64", "arm64"} {
		o := h.options(t.TempDir())
		o.Platform.OS, o.Platform.Architecture = "linux", arch
		if got := tree(t, get(t, open(t, o), all).Rootfs); got["arch"] != arch {
			t.Error(got)
		}
	}
	o := h.options(t.TempDir())
	o.Platform.OS, o.Platform.Architecture = "linux", "s390x"
	s := open(t, o)
	if text := refused(t, s, all, fault.Unsupported, image.CodePlatform); !strings.Contains(text, "linux/amd64, linux/arm64") || strings.Contains(text, "unknown") {
		t.Error(text)
	}
	if text := refused(t, s, h.host+"/x/y:arm64", fault.Unsupported, image.CodePlatform); !strings.Contains(text, "linux/arm64") {
		t.Error(text)
	}
	nested := h.host + "/x/y:amd64"
	for i := range 5 { // an index of an index of ...
		h.put(http.MethodPut, "/v2/x/y/manifests/"+tag(i), "application/vnd.oci.image.index.v1+json", asJSON(object{"schemaVersion": 2, "n": i,
			"manifests": []object{{"mediaType": "application/vnd.oci.image.index.v1+json", "size": 1, "digest": get404(h, nested)}}}))
		nested = h.host + "/x/y:" + tag(i)
	}
	refused(t, s, nested, fault.Invalid, image.CodeCorrupt)
}

// get404 returns the digest of a manifest of the hub.
func get404(h *hub, ref string) string {
	path := strings.TrimPrefix(ref, h.host+"/x/y:")
	w := httptest.NewRecorder()
	h.inner.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2/x/y/manifests/"+path, nil))
	return digest(w.Body.Bytes())
}

func TestWhatIsNoImage(t *testing.T) {
	layer := `{"mediaType": "%s", "size": 1, "digest": "sha256:` + strings.Repeat("a", 64) + `"}`
	config := `{"mediaType": "%s", "size": 1, "digest": "sha256:` + strings.Repeat("a", 64) + `"}`
	ok := "application/vnd.oci.image.config.v1+json"
	for name, c := range map[string]struct {
		body string
		kind fault.Kind
		code string
	}{
		"schema 1":              {`{"schemaVersion": 1, "fsLayers": [], "history": []}`, fault.Unsupported, image.CodeKind},
		"schema 1, signed":      {`{"schemaVersion": 1, "signatures": []}`, fault.Unsupported, image.CodeKind},
		"an artifact":           {`{"schemaVersion": 2, "config": ` + fmt.Sprintf(config, "application/vnd.cncf.helm.config.v1+json") + `, "layers": []}`, fault.Unsupported, image.CodeKind},
		"encrypted":             {`{"schemaVersion": 2, "config": ` + fmt.Sprintf(config, ok) + `, "layers": [` + fmt.Sprintf(layer, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted") + `]}`, fault.Unsupported, image.CodeKind},
		"foreign layers":        {`{"schemaVersion": 2, "config": ` + fmt.Sprintf(config, ok) + `, "layers": [` + fmt.Sprintf(layer, "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip") + `]}`, fault.Unsupported, image.CodeKind},
		"both":                  {`{"schemaVersion": 2, "config": {}, "layers": [], "manifests": []}`, fault.Invalid, image.CodeCorrupt},
		"neither":               {`{"schemaVersion": 2}`, fault.Invalid, image.CodeCorrupt},
		"no JSON":               {`<html>`, fault.Invalid, image.CodeCorrupt},
		"no configuration":      {`{"schemaVersion": 2, "layers": []}`, fault.Invalid, image.CodeCorrupt},
		"another hash":          {`{"schemaVersion": 2, "config": {"size": 1, "digest": "sha512:` + strings.Repeat("a", 128) + `"}, "layers": []}`, fault.Invalid, image.CodeCorrupt},
		"a digest that climbs":  {`{"schemaVersion": 2, "config": {"size": 1, "digest": "sha256:../../etc/passwd"}, "layers": []}`, fault.Invalid, image.CodeCorrupt},
		"an index of nothing":   {`{"schemaVersion": 2, "manifests": []}`, fault.Unsupported, image.CodePlatform},
		"an index of no digest": {`{"schemaVersion": 2, "manifests": [{"size": 1}]}`, fault.Invalid, image.CodeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte(c.body))
				return true
			})
			refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y", c.kind, c.code)
		})
	}
}
