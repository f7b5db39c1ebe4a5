package hooks

import (
	"slices"
	"testing"
)

func TestByOrder(t *testing.T) {
	hook := func(name string, orders map[BindingType]float64) Hook {
		return Hook{File: File{Name: name}, Config: &Config{Version: V1, Orders: orders}}
	}
	hooks := []Hook{
		hook("c", map[BindingType]float64{BeforeHelm: 10}),
		hook("b", map[BindingType]float64{BeforeHelm: 5}),
		hook("other", map[BindingType]float64{AfterHelm: 1}),
		{File: File{Name: "never asked"}},
		hook("a", map[BindingType]float64{BeforeHelm: 5}),
		hook("first", map[BindingType]float64{BeforeHelm: -0.5}),
	}

	var names []string
	for _, hook := range ByOrder(hooks, BeforeHelm) {
		names = append(names, hook.Name)
	}

	if want := []string{"first", "a", "b", "c"}; !slices.Equal(names, want) { // C9
		t.Errorf("order %v, want %v", names, want)
	}
	if hooks[0].Name != "c" {
		t.Error("the given slice was sorted in place")
	}
	if got := ByOrder(hooks, AfterAll); len(got) != 0 {
		t.Errorf("hooks without the binding: %v", got)
	}
}

func TestOrderSnapshots(t *testing.T) {
	bound := []KubernetesBinding{{Binding: Binding{Name: "nodes"}}, {Binding: Binding{Name: "cfg"}}, {Binding: Binding{Name: "nodes"}}}
	tests := map[string]struct {
		config  *Config
		binding BindingType
		want    []string
		absent  bool
	}{
		"all bindings, each once (C31)":    {&Config{Version: V1, Kubernetes: bound}, BeforeHelm, []string{"nodes", "cfg"}, false},
		"present for a hook without any":   {&Config{Version: V1}, AfterAll, []string{}, false},
		"absent for onStartup (C31)":       {&Config{Version: V1, Kubernetes: bound}, OnStartup, nil, true},
		"absent in protocol v0 (C20)":      {&Config{Version: V0, Kubernetes: bound}, BeforeHelm, nil, true},
		"absent for a hook without answer": {nil, BeforeHelm, nil, true},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			got := test.config.OrderSnapshots(test.binding)
			if !slices.Equal(got, test.want) || (got == nil) != test.absent {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}
