package actors

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// Design 2 and 4: of each message somebody has thought what becomes of it when its receiver
// crashes over it.
func TestNoMessageIsLostUnnoticed(t *testing.T) {
	t.Parallel()
	handled := messagesOf(t, "Receive", "receive")
	thoughtOf := map[string]string{}
	note := func(why string, list ...string) {
		for _, message := range list {
			if thoughtOf[message] != "" {
				t.Errorf("%s is %s and %s", message, thoughtOf[message], why)
			}
			thoughtOf[message] = why
		}
	}
	note("handled again", messagesOf(t, "handledAgain")...)
	note("answered", messagesOf(t, "answerLost")...)
	note("a question: who asks hears of the crash", "areYouReady", "spawnModules", "takeOver",
		"getConfig", "getKnownConfig", "getDiscovery", "mayPurge", "endPurges", "endAsks", "getWarm", "messages.ListMonitored",
		"messages.GetValues", "handOver", "messages.GetDrift", "getHooks", "messages.ListHooks",
		"messages.ApplyHookResult", "messages.AwaitSynchronized", "awaitQuiet", "messages.GetSnapshots", "messages.DumpSnapshots", "messages.CheckConfig")
	note("of a run that is gone with its owner", "messages.BindingSynchronized", "messages.BindingDeferred", "startedUp")
	note("made needless by the start, which does the same", "messages.TaskDone", "executeAgain", "lookAgain")
	note("sent by tests only", "messages.ScheduleFired")
	for _, message := range handled {
		if !strings.HasPrefix(message, "*actor.") && thoughtOf[message] == "" {
			t.Errorf("%s is lost when its receiver crashes over it; see handledAgain", message)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(thoughtOf)) {
		if !slices.Contains(handled, message) {
			t.Errorf("%s is handled by nobody", message)
		}
	}
}

// messagesOf are the types of the cases in the functions with these names.
func messagesOf(t *testing.T, functions ...string) (list []string) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return slices.Contains(functions, n.Name.Name)
			case *ast.CaseClause:
				for _, message := range n.List {
					list = append(list, types.ExprString(message))
				}
			}
			return true
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// stumbling panics once over a line of the log, as a mistake in the middle of a handler would.
type stumbling struct {
	slog.Handler
	over    string
	crashes *atomic.Int32
}

func (h stumbling) Enabled(context.Context, slog.Level) bool { return true }

func (h stumbling) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.over && h.crashes.Add(1) == 1 {
		panic("crash over " + h.over)
	}
	return nil
}

// Design 2, D14: an edit of the ConfigMap is announced also when config crashed while it
// announced it: what is known is noted last.
func TestAnnouncedAgainAfterACrash(t *testing.T) {
	t.Parallel()
	p := newTestProgram(nil)
	var crashes atomic.Int32
	p.Log = slog.New(stumbling{slog.DiscardHandler, "config values changed", &crashes})
	told := make(chan messages.ConfigChanged, 1)
	spawned(t, p, convergePath, func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if msg, ok := ctx.Message().(messages.ConfigChanged); ok {
				told <- msg
			}
		})
	})
	pid := spawned(t, p, configPath, newConfig(t.Context(), p, initialConfig{}, false))
	p.Send(pid, messages.ConfigMapSeen{ResourceVersion: "1", Data: map[string]string{"aEnabled": "false"}})
	select {
	case msg := <-told:
		if !msg.FlagsChanged || crashes.Load() != 2 {
			t.Errorf("told %+v after %d attempts", msg, crashes.Load())
		}
	case <-time.After(time.Minute):
		t.Errorf("nobody was told; %d attempts", crashes.Load())
	}
}
