package addonoperator_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader who follows a link arrives: the file is there, and the heading in it.
func TestLinks(t *testing.T) {
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || file == "bin"):
			return fs.SkipDir
		case path.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		pages[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages {
		for _, link := range linksIn(text) {
			target, anchor, _ := strings.Cut(link, "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link)
			}
			if anchor != "" && !slices.Contains(anchorsIn(pages[file]), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", page, link, file)
			}
		}
	}
}

// linksIn are the links to files of this repository.
func linksIn(text string) []string {
	var links []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutCode(text), -1) {
		if !strings.Contains(m[1], "://") {
			links = append(links, m[1])
		}
	}
	return links
}

// anchorsIn are the headings as links name them.
func anchorsIn(text string) []string {
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}

// withoutCode leaves out blocks of code: what looks like a heading there is a comment.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?\n```").ReplaceAllString(text, "")
}
