package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licencesFile has the list and the texts, which most licences want next to each copy of the program.
const licencesFile = "THIRD-PARTY-LICENSES.txt"

// standardLibrary stands for Go itself, which is in each program and is no module.
const standardLibrary = "std"

// recognised is how much of the text of a licence must be known, in percent. The rest are names of owners, or a preface.
const recognised = 75

// licence is what the module in a program is licensed under.
type licence struct {
	module, version string
	ids             []string // of SPDX
	texts           []file   // the files that say so, and notices
}

// expression is the licence in the language of SPDX: all of the licences found hold.
func (l licence) expression() string { return strings.Join(l.ids, " AND ") }

// accepted are licences that let the program be given to anyone, if their texts come with it.
func accepted() []string {
	return []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}
}

// licences finds the licence of each module whose packages the program imports on one of the platforms, in the module
// cache, in the order of modules. A module whose licence is not found, or is another than the accepted ones, is an
// error: a person must look at it.
func (r release) licences(ctx context.Context) ([]licence, error) {
	root, err := output(ctx, r.root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	type source struct{ version, dir string }
	modules := map[string]source{standardLibrary: {runtime.Version(), root}}
	for _, p := range r.platforms {
		env, err := r.buildEnvironment(p)
		if err != nil {
			return nil, err
		}
		const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`
		text, err := output(ctx, r.root, env, "go", "list", "-deps", "-f", format, "./cmd/"+program)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 {
				modules[fields[0]] = source{fields[1], fields[2]}
			}
		}
	}
	var all []licence
	var problems []error
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		l := licence{module: module, version: modules[module].version}
		if err := l.read(modules[module].dir); err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", module, l.version, err))
		}
		all = append(all, l)
	}
	return all, errors.Join(problems...)
}

func (l *licence) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	// LICENSE.docs is that of documents, which no program contains.
	isLicence, ofDocuments := regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicen[cs]e)([.-].*)?$`), regexp.MustCompile(`(?i)[.-]docs$`)
	isNotice := regexp.MustCompile(`(?i)^notice([.-].*)?$`)
	for _, entry := range entries {
		licence := isLicence.MatchString(entry.Name()) && !ofDocuments.MatchString(entry.Name())
		if entry.IsDir() || !licence && !isNotice.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		l.texts = append(l.texts, file{name: entry.Name(), data: text})
		if !licence {
			continue
		}
		found := licensecheck.Scan(text)
		if found.Percent < recognised {
			return fmt.Errorf("%s: only %.0f %% of it is the text of a known licence; read it", entry.Name(), found.Percent)
		}
		for _, match := range found.Match {
			if !slices.Contains(l.ids, match.ID) {
				l.ids = append(l.ids, match.ID)
			}
		}
	}
	slices.Sort(l.ids)
	if len(l.ids) == 0 {
		return fmt.Errorf("no licence was recognised among its files %s", names(l.texts))
	}
	for _, id := range l.ids {
		if !slices.Contains(accepted(), id) {
			return fmt.Errorf("licence %s is not one of those that are accepted: %s", id, strings.Join(accepted(), ", "))
		}
	}
	return nil
}

func names(files []file) []string {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = f.name
	}
	return all
}

// licenceTable has a line for each module.
func licenceTable(all []licence) string {
	var table strings.Builder
	for _, l := range all {
		fmt.Fprintf(&table, "%-60s %-50s %s\n", l.module, l.version, l.expression())
	}
	return table.String()
}

func (r release) printLicences(ctx context.Context) error {
	all, err := r.licences(ctx)
	fmt.Print(licenceTable(all))
	return err
}

// writeLicences writes the list, and each text once, with the modules that have it.
func (r release) writeLicences(all []licence) error {
	users := map[string][]string{}
	var texts []string
	for _, l := range all {
		for _, f := range l.texts {
			text := string(bytes.TrimSpace(bytes.ReplaceAll(f.data, []byte("\r\n"), []byte("\n"))))
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], fmt.Sprintf("%s %s: %s", l.module, l.version, f.name))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "addon-operator %s is licensed under Apache-2.0. Its program contains these modules:\n\n%s", r.version, licenceTable(all))
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return r.write(licencesFile, []byte(out.String()))
}
