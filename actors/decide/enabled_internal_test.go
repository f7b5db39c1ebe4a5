package decide

import (
	"fmt"
	"reflect"
	"testing"
)

// D9: the list is added for the hook and never stored.
func TestWithEnabledModules(t *testing.T) {
	for name, c := range map[string]struct {
		section any
		names   []string
		want    any
	}{
		"a section":         {map[string]any{"a": 1}, []string{"dns", "web"}, map[string]any{"a": 1, "enabledModules": []any{"dns", "web"}}},
		"no section":        {nil, []string{"dns"}, map[string]any{"enabledModules": []any{"dns"}}},
		"nobody is enabled": {map[string]any{}, nil, map[string]any{"enabledModules": []any{}}},
		"an old list":       {map[string]any{"enabledModules": "old"}, []string{"dns"}, map[string]any{"enabledModules": []any{"dns"}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(c.section)
			if got := WithEnabledModules(c.section, c.names); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if fmt.Sprint(c.section) != before {
				t.Error("the values of the owner were written to")
			}
		})
	}
}
