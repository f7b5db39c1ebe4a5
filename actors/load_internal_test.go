package actors

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/supervisor"
)

// silent is an API server that never answers.
type silent struct{ ConfigMap }

func (silent) Read(ctx context.Context) (kube.ConfigMap, error) {
	<-ctx.Done()
	return kube.ConfigMap{}, ctx.Err()
}

// G0: what is wrong on disk is reported at once, also when the API server cannot be reached.
func TestABrokenDirectoryDoesNotWaitForTheAPIServer(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nope")
	log := slog.New(slog.DiscardHandler)
	_, err := load(t.Context(), newProgram(supervisor.NewSystem(supervisor.Options{Log: log}), World{
		Services:  Services{Dirs: addons.Dirs{Modules: []string{missing}}, Log: log},
		ConfigMap: silent{},
	}), func(string) {})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("load says %v; want that %s does not exist", err, missing)
	}
}
