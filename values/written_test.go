package values

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func configMap(t *testing.T, data map[string]string) Document {
	t.Helper()
	doc, err := ParseConfigMap(data)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestWritten(t *testing.T) {
	was := configMap(t, map[string]string{"web": "mine: 1\n"})
	is := configMap(t, map[string]string{"web": "mine: 1\nauth: {\"a.b/c\": x, user: u}\nlist: [1, 2]\n", "dnsEnabled": "true"})
	w := Written(nil).Wrote("h.sh", "web", was.Sections["web"], is.Sections["web"])
	w = w.Wrote("g.sh", "dnsEnabled", nil, true)
	want := Written{"/web/auth/a.b~1c": "h.sh", "/web/auth/user": "h.sh", "/web/list": "h.sh", "/dnsEnabled": "g.sh"}
	if !maps.Equal(w, want) {
		t.Fatalf("%v, want %v", w, want)
	}
	if read, err := ParseWritten(w.Text()); err != nil || !maps.Equal(read, w) {
		t.Errorf("%s is read as %v, %v", w.Text(), read, err)
	}

	for name, c := range map[string]struct {
		data map[string]string
		lost []Lost
		rest Written
	}{
		"nothing changed":     {map[string]string{"web": "mine: 2\nauth: {\"a.b/c\": x, user: u}\nlist: [1, 2]", "dnsEnabled": "true"}, nil, want},
		"a key is gone":       {map[string]string{"web": "auth: {user: u}\nlist: [1, 2]", "dnsEnabled": "true"}, []Lost{{`web.auth["a.b/c"]`, "h.sh"}}, Written{"/web/auth/user": "h.sh", "/web/list": "h.sh", "/dnsEnabled": "g.sh"}},
		"a person's value":    {map[string]string{"web": "auth: {\"a.b/c\": mine, user: u}\nlist: [1]", "dnsEnabled": "false"}, nil, Written{"/web/auth/user": "h.sh"}},
		"the section is gone": {map[string]string{"dnsEnabled": "true"}, []Lost{{`web.auth["a.b/c"]`, "h.sh"}, {"web.auth.user", "h.sh"}, {"web.list", "h.sh"}}, Written{"/dnsEnabled": "g.sh"}},
		"the flag is gone":    {map[string]string{"web": "auth: {\"a.b/c\": x, user: u}\nlist: [1, 2]"}, []Lost{{"dnsEnabled", "g.sh"}}, Written{"/web/auth/a.b~1c": "h.sh", "/web/auth/user": "h.sh", "/web/list": "h.sh"}},
	} {
		lost, rest := w.Compare(is, configMap(t, c.data))
		if !slices.Equal(lost, c.lost) || !maps.Equal(rest, c.rest) {
			t.Errorf("%s: lost %v, rest %v; want %v, %v", name, lost, rest, c.lost, c.rest)
		}
	}
	if lost, rest := w.Compare(Document{}, is); len(lost) > 0 || !maps.Equal(rest, want) {
		t.Errorf("after a restart: lost %v, rest %v", lost, rest)
	}
	if w = w.Wrote("h.sh", "web", is.Sections["web"], nil).Wrote("g.sh", "dnsEnabled", nil, nil); len(w) > 0 || w.Text() != "" {
		t.Errorf("what hooks removed is remembered: %v", w)
	}
}

// What is remembered is bounded, and so is what is read.
func TestWrittenIsBounded(t *testing.T) {
	many := map[string]any{}
	for i := range 10_000 {
		many["key"+strconv.Itoa(i)] = i
	}
	w := Written(nil).Wrote("h.sh", "web", nil, many)
	if n := len(w.Text()); n > maxWritten || n < maxWritten/4 {
		t.Errorf("the text has %d bytes", n)
	}
	if again := w.Wrote("other.sh", "web", nil, many); len(again) != len(w) {
		t.Errorf("%d paths, want the same %d", len(again), len(w))
	}
	for _, text := range []string{"{", `{"h": "x"}`, `{"h": ["x"]}`, `{"h": [""]}`, `{"h": ["` + strings.Repeat("x", 2*maxWritten) + `"]}`} {
		if w, err := ParseWritten(text); err == nil || w != nil {
			t.Errorf("%.20s is read as %v", text, w)
		}
	}
}
