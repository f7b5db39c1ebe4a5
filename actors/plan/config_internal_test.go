package plan

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"addon-operator/addons"
	"addon-operator/messages"
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
		set       map[string]string
		secret    map[string]string
		keys      []string
		global    bool
		modules   []string
		flags     bool
		wantCause string
	}{
		"a comment":        {set: map[string]string{"global": "# of mine\nb: 2\na: 1"}},
		"global":           {set: map[string]string{"global": "a: 2\nb: 2"}, keys: []string{"global"}, global: true, wantCause: "global.a in ConfigMap"},
		"a module":         {set: map[string]string{"webServer": "a: 2"}, keys: []string{"webServer"}, modules: []string{"web-server"}, wantCause: "webServer.a in ConfigMap"},
		"a secret":         {secret: map[string]string{"dns": "key: x"}, keys: []string{"dns"}, modules: []string{"dns"}, wantCause: "dns.key in Secret"},
		"the same value":   {secret: map[string]string{"dns": "replicas: 1"}, keys: []string{"dns"}, modules: []string{"dns"}, wantCause: "dns in Secret"},
		"a flag":           {set: map[string]string{"dnsEnabled": "false"}, keys: []string{"dnsEnabled"}, flags: true, wantCause: "dnsEnabled in ConfigMap"},
		"maintenance":      {set: map[string]string{"dnsMaintenance": "NoResourceReconciliation"}, keys: []string{"dnsMaintenance"}, wantCause: "dnsMaintenance in ConfigMap"},
		"not of a module":  {set: map[string]string{"other": "a: 1"}},
		"several sections": {set: map[string]string{"webServer": "a: 2", "dns": "replicas: 2"}, keys: []string{"dns", "webServer"}, modules: []string{"dns", "web-server"}, wantCause: "dns.replicas, webServer.a in ConfigMap"},
	} {
		after := maps.Clone(before)
		maps.Copy(after, c.set)
		doc := parsed(t, after, c.secret)
		keys, got := schemas(t).Change(parsed(t, before, nil), doc)
		want := messages.ConfigChanged{
			Global: c.global, Modules: c.modules, Flags: doc.Flags, FlagsChanged: c.flags, Maintenance: doc.Maintenance,
			Cause: messages.Cause{Activation: messages.ByConfigMap, Detail: c.wantCause},
		}
		if len(keys) == 0 {
			got.Cause.Detail = ""
		}
		if !slices.Equal(keys, c.keys) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %+v, want %q, %+v", name, keys, got, c.keys, want)
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
