package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/values"
)

// fillWeb adds a module with all that the page can show of one.
func (h *operator) fillWeb() server.Source {
	h.converge = view.ConvergeStatus{Phase: view.ConvergeIdle, Ready: true}
	began := time.Now().Add(-time.Minute)
	h.add("operator", "module/web", view.ModuleStatus{
		Phase: view.Ready, Enabled: true, Order: 10, Release: 3, Values: "abc",
		LastRun: &view.ModuleRun{Began: began, Took: 2 * time.Second, Release: "upgraded, revision 3: values", Causes: []messages.Cause{
			{Activation: messages.ByHook, Detail: "hook b"}, {Activation: messages.ByKubernetes, Detail: "Pod a/b Modified"},
		}},
	})
	h.add("operator", "monitors", reporter{view.MonitorsStatus{Bindings: []messages.BindingState{
		{Owner: "web", Hook: "web/hooks/a.sh", Binding: "pods", Kind: "Pod", Phase: "complete", Objects: 60},
	}}})
	h.add("operator", "queue/main", view.QueueStatus{Length: 1, Head: []messages.Task{{ID: "1", Owner: "web", Work: messages.RunModule{}, QueuedAt: time.Now(), Cause: messages.Cause{Activation: messages.ByKubernetes, Detail: "Pod a/b"}}}})
	section, err := values.NewSection("web", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	source := h.source()
	source.Hide = func(text string) string { return strings.ReplaceAll(text, "planted", "***") }
	source.Ask = func(_ context.Context, path string, question any) (any, error) {
		switch question.(type) {
		case messages.GetValues:
			return messages.Values{Section: section}, nil
		case messages.GetDrift:
			return messages.Drift{Mode: "report", Checked: began, Objects: []messages.ObjectDrift{
				{Object: "ConfigMap a/web", Fields: []messages.FieldDrift{{Path: "data.size", Found: "<huge>", Chart: "planted"}}},
			}}, nil
		case messages.DumpSnapshots:
			dump := messages.BindingDump{BindingState: messages.BindingState{Hook: "web/hooks/a.sh", Binding: "pods", Kind: "Pod", Phase: "complete", Objects: 60}}
			pods := strings.Repeat(`, {"object": {"metadata": {"namespace": "a", "name": "pod"}, "data": {"password": "hunter2"}, "note": "planted"}}`, 59)
			if err := json.Unmarshal([]byte(`{"Snapshot": [{"filterResult": {"n":1}}`+pods+`]}`), &dump); err != nil {
				h.t.Error(err)
			}
			return messages.SnapshotDump{Bindings: []messages.BindingDump{dump}}, nil
		case messages.ListHooks:
			return messages.HookList{}, nil
		}
		h.t.Errorf("%s is asked %T", path, question)
		return nil, nil
	}
	return source
}

// J18: the parts of a module that a person opens: bounded, without secrets, with what is HTML as text.
func TestFragments(t *testing.T) {
	withOperator(t, func(h *operator) {
		source := h.fillWeb()
		debug := server.Debug(source)
		for path, want := range map[string][]string{
			"/live/snapshots?module=web":       {"<h3>web/hooks/a.sh pods: Pod, 60 objects</h3>", "1. {&#34;n&#34;:1}", "<summary>a/pod</summary>", "10 more objects are not shown here", "***"},
			"/live/drift?module=web":           {"data.size", "&lt;huge&gt;", "***", "The last check was <time"},
			"/live/actors?module=web":          {"module/web</th>", "queue/main</th>"},
			"/live/queue?name=main&module=web": {"<li>RunModule web , queued <time", "because of Kubernetes: Pod a/b"},
			"/live/values?module=web":          {"No value of this module is set."},
		} {
			status, body := h.get(debug, path)
			if status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, body)
			}
			for _, text := range want {
				if !strings.Contains(body, text) {
					t.Errorf("%s is without %s:\n%s", path, text, body)
				}
			}
			for _, text := range []string{"hunter2", "planted", "<huge>", "monitors</th>"} {
				if strings.Contains(body, text) {
					t.Errorf("%s has %s:\n%s", path, text, body)
				}
			}
			if status, _ := h.get(server.Public(source), path); status != http.StatusNotFound {
				t.Errorf("the public is answered %d by %s", status, path)
			}
			unknown, want := strings.Replace(path, "web", "wep", 1), "did you mean web"
			if strings.HasPrefix(path, "/live/queue") {
				unknown, want = "/live/queue?name=slow", `queue "slow" not found; available: main`
			}
			if status, body := h.get(debug, unknown); status != http.StatusNotFound || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", unknown, status, body)
			}
		}
	})
}

// J18: the values of a module have their origins, and what they override; secrets are masked; what is too much is said.
func TestValuesFragment(t *testing.T) {
	withOperator(t, func(h *operator) {
		source := h.fillWeb()
		many, file := map[string]any{"image": "new", "password": "hunter2"}, map[string]any{"image": "old"}
		for i := range 600 {
			many[fmt.Sprint("key", i)] = i
		}
		section, err := values.NewSection("web", nil, values.Layer{Source: "web/values.yaml", Value: file})
		if err != nil {
			t.Fatal(err)
		}
		if section, err = section.WithConfig(many, values.Origin{Revision: "7"}); err != nil {
			t.Fatal(err)
		}
		ask := source.Ask
		source.Ask = func(ctx context.Context, path string, question any) (any, error) {
			if _, ok := question.(messages.GetValues); ok {
				return messages.Values{Section: section}, nil
			}
			return ask(ctx, path, question)
		}
		_, body := h.get(server.Debug(source), "/live/values?module=web")
		for _, text := range []string{"web.image", "ConfigMap: resourceVersion 7", "overrides <code>&#34;old&#34;</code>", "file: web/values.yaml", "102 more values are not shown here"} {
			if !strings.Contains(body, text) {
				t.Errorf("without %s:\n%.3000s", text, body)
			}
		}
		if strings.Contains(body, "hunter2") {
			t.Error("the password is shown")
		}
	})
}

// J18: the detail has the timeline of the last run and what hooks have seen.
func TestDetail(t *testing.T) {
	withOperator(t, func(h *operator) {
		source := h.fillWeb()
		source.History = &server.History{}
		source.History.Add(view.HookRun{Owner: "web", Hook: "web/hooks/a.sh", Queue: "slow", Binding: "kubernetes", Took: 59 * time.Second})
		page, leave := follow(server.Debug(source), "/live?module=web")
		defer leave()
		detail, _ := partsOf(page.take()[0])["detail"].(string)
		for _, text := range []string{
			"because of Kubernetes: Pod a/b Modified</li><li><span class=\"at\"></span> because of HookChangedValues: hook b</li>", "&#43;1s</span> hook web/hooks/a.sh, kubernetes, took 59s, in queue slow",
			"release: upgraded, revision 3: values", "&#43;2s</span> the module run has succeeded", `data-part="live/values?module=web" data-version="abc"`,
		} {
			if !strings.Contains(detail, text) {
				t.Errorf("without %s:\n%s", text, detail)
			}
		}
	})
}

// J18: the revisions of a release, and what differs between two of them, without secrets even if they are asked for.
func TestRevisionFragments(t *testing.T) {
	withOperator(t, func(h *operator) {
		source := h.fillWeb()
		var asked []view.DiffRequest
		source.Releases = func(_ context.Context, module string, _ int) (view.ReleaseHistory, error) {
			return view.ReleaseHistory{Module: module, Recorded: 5, Revisions: []view.Revision{
				{Revision: 5, Updated: time.Now(), Status: "deployed", ChartVersion: "1.0.0"}, {Revision: 4, Status: "failed", Description: "<planted>"},
			}}, nil
		}
		source.Compare = func(_ context.Context, module string, r view.DiffRequest) (view.RevisionDiff, error) {
			if asked = append(asked, r); r.To == 9 {
				return view.RevisionDiff{}, &view.NoRevisionError{Module: module, Revision: 9, Recorded: []int{5}}
			}
			return view.RevisionDiff{Module: module, From: 4, To: 5, Cut: "the rest is cut", Changes: []view.ObjectDiff{{Object: "ConfigMap web", Action: "changed", Diff: " a: 1\n-b: planted\n+b: <3>\n"}}}, nil
		}
		debug := server.Debug(source)
		for path, want := range map[string][]string{
			"/live/history?module=web":                            {`data-part="live/diff?module=web&amp;to=5"`, `data-part="live/diff?module=web&amp;to=5&amp;from=4"`, "&lt;***&gt;", "3 older revisions"},
			"/live/diff?module=web&from=4&to=5&show-secrets=true": {"<h3>ConfigMap web is changed</h3>", "<span> a: 1\n</span><span class=\"bad\">-b: ", "<span class=\"good\">&#43;b: &lt;3&gt;\n</span>", "the rest is cut"},
			"/live/diff?module=web&to=9":                          {"revision 9 of module web is not recorded; recorded revisions: 5"},
		} {
			_, body := h.get(debug, path)
			for _, text := range want {
				if !strings.Contains(body, text) {
					t.Errorf("%s is without %s:\n%s", path, text, body)
				}
			}
		}
		for _, request := range asked {
			if request.Secrets {
				t.Error("the page asks for secrets")
			}
		}
	})
}
