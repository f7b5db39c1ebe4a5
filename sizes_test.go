package addonoperator_test

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sizes are the most lines that each folder may have, without tests, comments and blank lines. A file belongs to the
// longest folder that is listed; rows with a colon are of the whole tree. A number may fall; it rises only with a
// reason, after //.
const sizes = `
actors 7991 // 37: webhooks; 32: what an upgrade and a purge must not delete, renames, one run of a hook at a time
actors/scenario 2406 // 37: review, convert; objects of kinds that the module defines
addons 1113 // content that is lost is not in force
cmd 6257 // 37: webhooks
helm 6367 // 32: ownership, of what hooks replace, too, lost content after a restart, held upgrades, purges without data, take-overs, what ends by itself
hooks 2870 // days on which clocks change; 37: the library for bash, webhooks
jq 491 // steps of filters are bounded
kube 4447
kube/webhooks 614 // 37
kube/apiserver 1739
messages 1166 // 37: webhooks
server 2551 // 37: webhooks
supervisor 702
testkit 3840 // faults of release records
values 3404 // one list of names of secrets
go: 45927 // 32; 37: webhooks
scripts: 1264 // 37: the library for bash
web: 314
tests: 44150 // 32; 37: the library for bash, webhooks
txtar: 15282 // 32: scripts of the guards; 37: webhooks
`

// A tree that grows a little each day is one that no one can hold in the head. A failure prints the table as it
// should be.
func TestSizes(t *testing.T) {
	counted, table := map[string]int{}, ""
	rows := map[string]string{".txtar": "txtar:", ".sh": "scripts:", ".mk": "scripts:", ".js": "web:", ".mjs": "web:", ".html": "web:"}
	code, skipped := regexp.MustCompile(`(?m)^\s*[^\s#/].*$`), regexp.MustCompile(`(^|/)(\.git|\.run\w*|bin|dist|node_modules)$`)
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && skipped.MatchString(file) {
			return cmp.Or(err, fs.SkipDir)
		}
		if !entry.Type().IsRegular() || strings.Contains(file, "testdata/") && path.Ext(file) != ".txtar" {
			return nil
		}
		text, err := os.ReadFile(file)
		row, n := rows[path.Ext(file)], len(code.FindAll(text, -1))
		switch {
		case strings.HasSuffix(file, "_test.go"):
			row = "tests:"
		case file == "Makefile" || path.Ext(file) == "" && strings.HasPrefix(string(text), "#!"):
			row = "scripts:"
		case path.Ext(file) == ".go":
			for row = path.Dir(file); row != "." && !strings.Contains(sizes, "\n"+row+" "); {
				row = path.Dir(row)
			}
			counted["go:"] += n
		}
		counted[row] += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(sizes[1:]) {
		fields := strings.Fields(row)
		most, _ := strconv.Atoi(fields[1])
		n := counted[fields[0]]
		if n > most || n < most-most/50-20 {
			t.Errorf("%s has %d lines, its number is %d: remove some, or lower the number", fields[0], n, most)
		}
		table += strings.Replace(row, fields[1], strconv.Itoa(n), 1)
	}
	if t.Failed() {
		t.Logf("the table as it is:\n%s", table)
	}
}
