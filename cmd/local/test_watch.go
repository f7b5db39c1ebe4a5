package local

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/messages/view"
)

// roots are the paths of the command line; the current directory without any.
func (t *playing) roots(paths []string) []string {
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}

// playOnSave plays scenarios, and those again whose files change, until the context of the command
// ends. What fails then is printed, and is no error of the command; neither is a file that cannot
// be read for now, since a person is editing it.
//
// The watch has the directories of the scenarios that exist when it begins: a module that comes
// later is seen if it is below a path of the command line.
func (t *playing) playOnSave(cmd *cobra.Command, paths []string, scenarios []*scenario.Scenario) error {
	// One place is enough: a change during a round is found by the look after it.
	changed := make(chan struct{}, 1)
	addons.Watch(cmd.Context(), watched(t.roots(paths), scenarios), slog.New(slog.DiscardHandler), func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	out, seen, err := cmd.OutOrStdout(), map[string]string{}, error(nil)
	for {
		if err == nil {
			if due := dueOf(scenarios, seen); len(due) > 0 {
				err = t.playAll(cmd, due)
			}
		}
		if err != nil && cmd.Context().Err() == nil {
			fmt.Fprintln(out, err)
		}
		fmt.Fprintf(out, "--- %s; waiting for changes, Ctrl-C to stop\n", view.Count(len(scenarios), "scenario"))
		select {
		case <-cmd.Context().Done():
			return nil
		case <-changed:
		}
		scenarios, err = t.find(paths)
	}
}

// watched are the directories to watch, in the form that addons.Watch takes: the paths of the
// command line, where scenarios may be added, and the directories of all that the scenarios are
// played with. Of a values.yaml it is the directory, because editors replace files.
func watched(paths []string, scenarios []*scenario.Scenario) (dirs addons.Dirs) {
	dirs.Global, dirs.Modules = paths[0], slices.Clone(paths[1:])
	for _, s := range scenarios {
		for _, path := range s.Files() {
			if filepath.Ext(path) == ".yaml" {
				path = filepath.Dir(path)
			}
			if !slices.Contains(dirs.Modules, path) {
				dirs.Modules = append(dirs.Modules, path)
			}
		}
	}
	return dirs
}

// dueOf are the scenarios whose files differ from those in seen, which it updates; the first call
// returns all. seen has the stamps of all files by the name of the scenario. Scenarios share files,
// so each is looked at once.
func dueOf(scenarios []*scenario.Scenario, seen map[string]string) (due []*scenario.Scenario) {
	stamps := map[string]string{}
	for _, s := range scenarios {
		var all strings.Builder
		for _, path := range s.Files() {
			if _, known := stamps[path]; !known {
				stamps[path] = addons.Stamp(path)
			}
			all.WriteString(stamps[path])
		}
		if seen[s.Name()] != all.String() {
			seen[s.Name()] = all.String()
			due = append(due, s)
		}
	}
	return due
}
