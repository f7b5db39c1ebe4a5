package plan

import (
	"maps"
	"reflect"
	"testing"

	"addon-operator/addons"
	"addon-operator/values"
)

// schemas are two modules of which one needs a number, and global.
func schemas(t *testing.T) Schemas {
	t.Helper()
	s := Schemas{Sections: map[string]*values.Section{}, Modules: []addons.Module{{Name: "dns", Key: "dns"}, {Name: "web-server", Key: "webServer"}}}
	for _, key := range []string{values.GlobalKey, "dns", "webServer"} {
		section, err := values.NewSection(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Sections[key] = section
	}
	return s
}

func parsed(t *testing.T, config, secret map[string]string) values.Document {
	t.Helper()
	doc, err := Parse(config, secret)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// G16: an edit means sections, flags or maintenance modes; comments and the order of keys mean nothing.
func TestChange(t *testing.T) {
	before := map[string]string{"global": "a: 1\nb: 2", "dns": "replicas: 1", "dnsEnabled": "true"}
	for name, c := range map[string]struct {
		set    map[string]string
		secret map[string]string
		want   Change
	}{
		"a comment":        {set: map[string]string{"global": "# of mine\nb: 2\na: 1"}},
		"global":           {set: map[string]string{"global": "a: 2\nb: 2"}, want: Change{Keys: []string{"global"}, Global: true}},
		"a module":         {set: map[string]string{"webServer": "a: 2"}, want: Change{Keys: []string{"webServer"}, Modules: []string{"web-server"}}},
		"a secret":         {secret: map[string]string{"dns": "key: x"}, want: Change{Keys: []string{"dns"}, Modules: []string{"dns"}}},
		"a flag":           {set: map[string]string{"dnsEnabled": "false"}, want: Change{Flags: true}},
		"maintenance":      {set: map[string]string{"dnsMaintenance": "NoResourceReconciliation"}, want: Change{Maintenance: true}},
		"not of a module":  {set: map[string]string{"other": "a: 1"}},
		"several sections": {set: map[string]string{"webServer": "a: 2", "dns": "replicas: 2"}, want: Change{Keys: []string{"dns", "webServer"}, Modules: []string{"dns", "web-server"}}},
	} {
		after := maps.Clone(before)
		maps.Copy(after, c.set)
		got := schemas(t).Change(parsed(t, before, nil), parsed(t, after, c.secret))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if want := !reflect.DeepEqual(c.want, Change{}); got.Any() != want {
			t.Errorf("%s: Any is %v", name, got.Any())
		}
	}
}

// What the operator writes itself is known before the watch shows it.
func TestWithKeys(t *testing.T) {
	before := map[string]string{"dns": "a: 1", "dnsEnabled": "true"}
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		set  map[string]*string
		want map[string]string
	}{
		"a section":              {map[string]*string{"dns": text("a: 2")}, map[string]string{"dns": "a: 2", "dnsEnabled": "true"}},
		"a new section":          {map[string]*string{"webServer": text("a: 2")}, map[string]string{"dns": "a: 1", "webServer": "a: 2", "dnsEnabled": "true"}},
		"a section removed":      {map[string]*string{"dns": nil}, map[string]string{"dnsEnabled": "true"}},
		"a flag":                 {map[string]*string{"dnsEnabled": text("false")}, map[string]string{"dns": "a: 1", "dnsEnabled": "false"}},
		"a flag as it was":       {map[string]*string{"dnsEnabled": text("true")}, before},
		"a flag removed":         {map[string]*string{"dnsEnabled": nil}, map[string]string{"dns": "a: 1"}},
		"no flag is none before": {map[string]*string{"webServerEnabled": nil}, before},
	} {
		if after := WithKeys(before, c.set); !maps.Equal(after, c.want) {
			t.Errorf("%s: got %v, want %v", name, after, c.want)
		}
	}
	if after := WithKeys(nil, map[string]*string{"dns": text("a: 1")}); len(after) != 1 {
		t.Errorf("without a ConfigMap: %v", after)
	}
}
