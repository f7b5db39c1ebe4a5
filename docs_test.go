package addonoperator_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader who follows a link arrives: the file is there, and the heading in it.
func TestLinks(t *testing.T) {
	pages := map[string]string{} // without code: what looks like a heading there is a comment
	err := eachText(os.DirFS("."), func(file string, _ int, text string) {
		if path.Ext(file) == ".md" {
			pages[file] += text
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	code, links := regexp.MustCompile("(?ms)^```.*?\n```"), regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchors := map[string][]string{}
	for page, text := range pages {
		pages[page] = code.ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(pages[page], -1) {
			plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
			anchors[page] = append(anchors[page], strings.ReplaceAll(plain, " ", "-"))
		}
	}
	for page, text := range pages {
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil || anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s links to %s, which is not there, or has no such heading", page, m[1])
			}
		}
	}
}
