package e2e

import (
	"cmp"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a page leads to, has and loads.
var (
	siteLink   = regexp.MustCompile(`<a [^>]*?href="([^"]+)"`)
	siteID     = regexp.MustCompile(`\sid="([^"]+)"`)
	sitePieces = regexp.MustCompile(`(?:src|href)="(https?://[^"]+)"`)
)

// site is what .ci/site has built, with clean addresses, as hosts of pages serve it.
func site(t *testing.T) (dir string, at *httptest.Server) {
	t.Helper()
	dir = os.Getenv("SITE")
	if dir == "" {
		t.Skip("SITE is not set: the site is not looked at; bash .ci/site builds it")
	}
	files := os.DirFS(dir)
	at = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		name = cmp.Or(name, "index.html")
		if _, err := fs.Stat(files, name+".html"); err == nil {
			name += ".html"
		}
		http.ServeFileFS(w, r, files, name)
	}))
	t.Cleanup(at.Close)
	return dir, at
}

// Each link of the site leads to a page and a heading of it. Nothing is loaded from elsewhere.
func TestSiteHasNoDeadLinks(t *testing.T) {
	dir, _ := site(t)
	pages, ids := map[string]string{}, map[string]map[string]bool{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, file)
		name = "/" + strings.TrimSuffix(strings.TrimSuffix(filepath.ToSlash(name), ".html"), "index")
		pages[name], ids[name] = string(data), map[string]bool{}
		for _, m := range siteID.FindAllStringSubmatch(string(data), -1) {
			ids[name][m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("the site has %d pages", len(pages))
	}
	for name, text := range pages {
		if strings.Contains(text, "&amp;ZeroWidthSpace;") {
			t.Errorf("%s: the name of a sign is shown in place of it", name)
		}
		for _, m := range siteLink.FindAllStringSubmatch(text, -1) {
			link, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if link.Host != "" {
				continue
			}
			to := name
			if link.Path != "" {
				to = path.Join(path.Dir(name), link.Path)
				if path.IsAbs(link.Path) {
					to = path.Clean(link.Path)
				}
				if strings.HasSuffix(link.Path, "/") && to != "/" {
					to += "/"
				}
			}
			if path.Ext(to) != "" && pages[to] == "" { // a file
				if _, err := os.Stat(filepath.Join(dir, to)); err != nil {
					t.Errorf("%s: there is no file %s", name, to)
				}
				continue
			}
			if pages[to] == "" {
				t.Errorf("%s: there is no page %s", name, m[1])
			} else if link.Fragment != "" && !ids[to][link.Fragment] {
				t.Errorf("%s: %s has no heading #%s", name, to, link.Fragment)
			}
		}
		for _, m := range sitePieces.FindAllStringSubmatch(text, -1) {
			if strings.Contains(text, `<script src="`+m[1]) || strings.Contains(text, `<link rel="stylesheet" href="`+m[1]) {
				t.Errorf("%s loads %s", name, m[1])
			}
		}
	}
}

// A browser shows the site in light and dark and on a telephone, draws its pictures, finds words, and has no complaint.
func TestSiteInABrowser(t *testing.T) {
	_, at := site(t)
	h := newFixture(t, "-- a --\n")
	b := h.browse(at.URL)
	for _, scheme := range []string{"light", "dark"} {
		b.screen(1280, 900, scheme)
		b.open(at.URL + "/")
		b.await(`document.querySelector('h1') !== null`)
		b.screenshot("site-" + scheme)
		b.open(at.URL + "/concepts")
		b.await(`document.querySelectorAll('figure.picture svg').length === 7`)
		b.screenshot("site-concepts-" + scheme)
		h.axe(b, scheme)
	}
	b.screen(390, 844, "light")
	b.open(at.URL + "/getting-started")
	b.await(`document.querySelector('h1') !== null`)
	b.screenshot("site-390")
	if b.eval(`document.documentElement.scrollWidth > innerWidth`) != "false" {
		t.Error("the page is wider than a telephone")
	}
	b.screen(1280, 900, "light")
	b.open(at.URL + "/concepts")
	b.await(`document.querySelector('#local-search button, .VPNavBarSearchButton') !== null`)
	// A click is lost while the page's script has not run yet.
	b.await(`document.querySelector('#localsearch-input') !== null || (document.querySelector('#local-search button, .VPNavBarSearchButton').click(), false)`)
	b.eval(`(() => { const i = document.querySelector('#localsearch-input'); i.value = 'purge'; i.dispatchEvent(new Event('input', {bubbles: true})) })()`)
	b.await(`document.querySelectorAll('#localsearch-list .result').length > 2`)
	b.screenshot("site-search")
	for _, problem := range b.console() {
		t.Error(problem)
	}
}
