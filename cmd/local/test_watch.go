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

// roots are the paths of the command line.
func (t *playing) roots(paths []string) []string {
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}

// playOnSave plays scenarios, and those again whose files change, until the context of the command ends. What fails then is
// printed, and is no error.
func (t *playing) playOnSave(cmd *cobra.Command, paths []string, scenarios []*scenario.Scenario) error {
	changed := make(chan struct{}, 1)
	addons.Watch(cmd.Context(), watched(t.roots(paths), scenarios), slog.New(slog.DiscardHandler), func() {
		select {
		case changed <- struct{}{}:
		default: // one look finds all
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
		fmt.Fprintf(out, "--- %s; waiting for changes, Ctrl-C ends\n", view.Count(len(scenarios), "scenario"))
		select {
		case <-cmd.Context().Done():
			return nil
		case <-changed:
		}
		scenarios, err = t.find(paths)
	}
}

// watched are the directories of scenarios, those that may get some, and those of what they are played with.
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

// dueOf are the scenarios whose files are others than those that were seen, which it notes.
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
