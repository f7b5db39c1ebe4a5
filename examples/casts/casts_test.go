package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"
)

const pictures = "../../docs/.vitepress/public/casts"

// What 'make casts' has written is what the scripts say now, shows nothing of the machine that recorded it, and runs nothing.
func TestPictures(t *testing.T) {
	files, err := os.ReadDir(pictures)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(casts()) {
		t.Errorf("there are %d pictures of %d casts", len(files), len(casts()))
	}
	ofMachine := regexp.MustCompile(`/(?:tmp|work|home|root|Users)\b|<script|\son\w+=|@import|url\(`)
	for _, c := range casts() {
		data, err := os.ReadFile(filepath.Join(pictures, c.name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := wellFormed(data); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, found := range ofMachine.FindAllString(string(data), -1) {
			t.Errorf("%s has %q", c.name, found)
		}
		if len(data) > maxBytes {
			t.Errorf("%s has %d bytes", c.name, len(data))
		}
		for _, want := range []string{
			">" + html.EscapeString(c.title) + "</title>", ">" + html.EscapeString(c.desc) + "</desc>", "prefers-color-scheme:dark", "prefers-reduced-motion:reduce", ` class="k end`,
		} {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s has no %q: make casts records it again", c.name, want)
			}
		}
		for _, s := range c.steps {
			if s.command == "" {
				continue
			}
			if !strings.Contains(string(data), html.EscapeString("$ "+s.command)) {
				t.Errorf("%s does not show %q: make casts records it again", c.name, s.command)
			}
			if err := exists(s.command); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func wellFormed(data []byte) error {
	for decoder := xml.NewDecoder(bytes.NewReader(data)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// exists says whether make or the program has a command; those of others are not looked at.
func exists(command string) error {
	words := append(strings.Fields(command), "")
	page, pattern := "../../docs/cli.md", `(?m)^addon-operator %s\b`
	switch words[0] {
	case "make":
		page, pattern = "../../Makefile", `(?m)^%s: `
	case "addon-operator":
	default:
		return nil
	}
	text, err := os.ReadFile(page)
	if err == nil && !regexp.MustCompile(fmt.Sprintf(pattern, regexp.QuoteMeta(words[1]))).Match(text) {
		err = fmt.Errorf("%s has no %q", page, words[1])
	}
	return err
}

// Each picture is on a page, with what it shows as a text.
func TestPagesShowThePictures(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`!\[([^\]]*)\]\(\.vitepress/public/casts/(\w+)\.svg\)`).FindAllStringSubmatch(string(text), -1) {
			if shown = append(shown, m[2]); len(m[1]) < 80 {
				t.Errorf("%s: the text in place of %s is short: %q", page, m[2], m[1])
			}
		}
	}
	for _, c := range casts() {
		if !slices.Contains(shown, c.name) {
			t.Errorf("no page shows %s", c.name)
		}
	}
}

// A row is seen when a frame has it, paths are those of a reader, and times have no day.
func TestPictureOfFrames(t *testing.T) {
	r := &recorder{root: "/machine/clone", home: "/machine/home/42", screen: vt10x.New(vt10x.WithSize(columns, rows))}
	for _, part := range []string{"\x1b[1m$ addon-operator <list>\x1b[m\r\n", "in /machine/ho", "me/42/a at 2031-02-03T04:05:06Z\r\n", "\x1b[31mover\x1b[m", "\r\x1b[K"} {
		r.write(part)
		r.keep()
	}
	picture := string(r.picture(cast{name: "a", title: "<a>", desc: "b"}))
	if err := wellFormed([]byte(picture)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`<text y="26"><tspan x="12.0" textLength="193.2" class="bold">$ addon-operator &lt;list&gt;</tspan>`, `class="k end k1"><tspan x="12.0" textLength="252.0">in ~/a at 2026-01-01T10:05:06Z<`,
		`class="k k2"><tspan x="12.0" textLength="33.6" class="red">over<`, `>&lt;a&gt;</title>`, `@keyframes k2{0%{visibility:hidden}`,
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
}
