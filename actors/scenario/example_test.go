package scenario_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"addon-operator/actors/scenario"
)

// A module with a chart and a scenario, played without a cluster.
func Example() {
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		log.Print(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"010-hello/values.yaml":       "hello: {greeting: hello}\n",
		"010-hello/templates/cm.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {text: {{ .Values.hello.greeting }}}}\n",
		"010-hello/tests/text.yaml": `
description: The chart shows the greeting
steps:
- configMap: {hello: {greeting: good morning}}
expect:
  objects: [{kind: ConfigMap, metadata: {name: hello}, data: {text: good evening}}]
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Print(err)
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Print(err)
			return
		}
	}
	found, err := scenario.Find(dir)
	if err != nil {
		log.Print(err)
		return
	}
	for _, result := range scenario.Play(context.Background(), found, scenario.Options{}, nil) {
		fmt.Println(result.Scenario.Name(), result.Passed())
		for _, problem := range result.Problems {
			fmt.Println(problem)
		}
	}
	// Output:
	// 010-hello/text false
	// expect.objects: ConfigMap hello.data.text must be "good evening", is "good morning"
}
