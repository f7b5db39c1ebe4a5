package values_test

import (
	"fmt"

	"addon-operator/values"
)

// From files and the ConfigMap to the values a chart sees.
func ExampleSection() {
	schemas, err := values.CompileSchemas(
		values.SchemaFile{Path: "openapi/config-values.yaml", Data: []byte("{type: object, properties: {host: {type: string}, replicas: {type: integer, default: 1}}}")},
		values.SchemaFile{Path: "openapi/values.yaml", Data: []byte("{x-extend: {schema: config-values.yaml}, x-required-for-helm: address, properties: {address: {type: string}}}")},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := values.ParseFile("/modules/001-web/values.yaml", []byte("web: {host: example.com}"), "web")
	if err != nil {
		fmt.Println(err)
		return
	}
	section, err := values.NewSection("web", schemas, values.Layer{Source: "/modules/001-web/values.yaml", Value: file.Sections["web"]})
	if err != nil {
		fmt.Println(err)
		return
	}
	section, err = section.WithStored(map[string]any{"replicas": int64(3)}, nil, values.Origin{}, values.Origin{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(section.ValidateConfig(), section.ValidateForHelm())

	patch, _, err := values.ParsePatch([]byte(`{"op": "add", "path": "/web/address", "value": "10.0.0.1"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	section, err = section.Patch(patch, values.Origin{})
	if err != nil {
		fmt.Println(err)
		return
	}
	merged, err := values.JSON(section.Merged())
	fmt.Println(string(merged), err, section.ValidateForHelm())
	// Output:
	// <nil> values of web do not fit openapi/values.yaml: web.address: is required
	// {"address":"10.0.0.1","host":"example.com","replicas":3} <nil> <nil>
}

func ExampleMerge() {
	merged, err := values.JSON(values.Merge(
		map[string]any{"image": map[string]any{"tag": "v1", "pull": true}, "ports": []any{int64(80), int64(443)}},
		map[string]any{"image": map[string]any{"tag": "v2"}, "ports": []any{int64(8080)}},
	))
	fmt.Println(string(merged), err)
	// Output: {"image":{"pull":true,"tag":"v2"},"ports":[8080]} <nil>
}

func ExampleKey() {
	for _, name := range []string{"nginx-ingress", "module-2"} {
		key, err := values.Key(name)
		fmt.Println(key, err)
	}
	// Output:
	// nginxIngress <nil>
	//  module name "module-2" must be words of lower-case letters and digits joined by dashes, each beginning with a letter; rename the module to "module2"
}

// A global hook changes global values and switches a module on; the two go different ways.
func ExamplePatch_ForGlobal() {
	patch, warnings, err := values.ParsePatch([]byte(`
		{"op": "add", "path": "/global/clusterDomain", "value": "cluster.local"}
		{"op": "add", "path": "/nginxIngressEnabled", "value": "true"}
		{"op": "remove", "path": "dashboardEnabled"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(warnings)
	global, flags, err := patch.ForGlobal()
	fmt.Println(global, err)
	for _, flag := range flags {
		if flag.Value == nil {
			fmt.Println(flag.Key, "withdrawn")
			continue
		}
		fmt.Println(flag.Key, *flag.Value)
	}
	// Output:
	// [patch path "dashboardEnabled" has the old dotted form; write "/dashboardEnabled"]
	// [add /global/clusterDomain] <nil>
	// nginxIngressEnabled true
	// dashboardEnabled withdrawn
}
