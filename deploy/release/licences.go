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

// licencesFile has the table and the texts, which most licences require next to each copy of the
// program.
const licencesFile = "THIRD-PARTY-LICENSES.txt"

// standardLibrary stands for Go itself, which is in each program and is no module.
const standardLibrary = "std"

// recognised is how much of a text must be that of a known licence, in percent. The rest are names
// of owners, or a preface.
const recognised = 75

// licence is what a module in the program is licensed under.
type licence struct {
	module, version string
	ids             []string // of SPDX
	texts           []file   // the files that say so, and notices
}

// expression is the licence in the language of SPDX. All licences that were found hold at once: a
// module with a choice needs a person. It is "" when none was found.
func (l licence) expression() string { return strings.Join(l.ids, " AND ") }

// accepted are the licences that allow giving the program to anyone, as long as their texts come
// with it. A new one is a decision of a person, and is added here.
func accepted() []string {
	return []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}
}

// licences finds the licence of each module whose packages the program imports on one of the
// platforms, in the order of modules. The texts are read from the module cache, where the build has
// put them. A module whose licence is not found, or is not accepted, is an error, together with all
// others; the list is returned with it.
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
		// A replaced module has the licence of its replacement. The standard library and the
		// program have no line.
		const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`
		text, err := output(ctx, r.root, env, "go", "list", "-deps", "-f", format, "./cmd/"+program)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			// At most three parts: a path may contain spaces.
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

// read finds the licences and notices of the module in a directory, and refuses what is not
// accepted. It looks only at the top, where the licence of the whole module is.
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
		// One file may have several licences, as where code of others was taken over.
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

// licenceTable has a line for each module, in columns.
func licenceTable(all []licence) string {
	var table strings.Builder
	for _, l := range all {
		fmt.Fprintf(&table, "%-60s %-50s %s\n", l.module, l.version, l.expression())
	}
	return table.String()
}

// printLicences prints the table also when the error says that one is not accepted, so that a
// person sees all.
func (r release) printLicences(ctx context.Context) error {
	all, err := r.licences(ctx)
	fmt.Print(licenceTable(all))
	return err
}

// writeLicences writes the table, and each text once, with the modules that have it: most texts are
// the same but for the line ends.
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
