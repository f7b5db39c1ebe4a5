package main

// cast is what one picture shows. name is that of its file; title and desc are read out to people
// who do not see it.
type cast struct {
	name, title, desc string
	steps             []step
}

// step is a command that is typed, or, with a file, a file that is there without being shown.
type step struct {
	file, text   string
	command      string
	inRoot       bool // of the repository; else in the home of the reader
	keepsRunning bool // also in later casts
	then         []action
}

// action is what a person does after the screen has shown a text for a while: save a file, or end
// the command by keys. From the keys on nothing is shown.
type action struct {
	// shows is the text that the action waits for; file is written with text; keys are typed.
	shows, file, text, keys string
}

// These are the files of the module in the cast of dev.
const (
	template = `apiVersion: v1
kind: ConfigMap
metadata:
  name: greeter
data:
  text: {{ .Values.greeter.greeting }}, {{ .Values.global.clusterName }}
`
	scenario = `description: it greets
given: {values: {global: {clusterName: there}}}
expect:
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: greeter}, data: {text: "Hello, there"}}
`
	hook = `#!/usr/bin/env bash
set -euo pipefail
if [[ "${1:-}" == "--config" ]]; then
  echo '{configVersion: v1, beforeHelm: 1}'
  exit 0
fi
echo "the hook has run"
`
)

// casts are all casts in the order in which they are played. The order matters: the operator of the
// first one goes on, and commands of the next ones ask it.
func casts() []cast {
	return []cast{
		{
			name:  "run",
			title: "make run",
			desc: "make run starts an API server in memory and the operator. It prints a line for a second terminal, the log of the first converge, " +
				"the releases of the example modules, and what to try next.",
			steps: []step{{command: "make run", inRoot: true, keepsRunning: true, then: []action{{shows: "Ctrl-C ends the operator and the cluster"}}}},
		},
		{
			name:  "why",
			title: "addon-operator why",
			desc: "A person deletes the Deployment of Grafana. Within a second the operator has created it again. addon-operator why grafana shows that " +
				"its release was upgraded because the Deployment was absent.",
			steps: []step{
				{command: "kubectl -n addon-operator delete deployment grafana"},
				{command: "kubectl -n addon-operator wait --for=create deployment/grafana --timeout=60s"},
				{command: "addon-operator why grafana"},
			},
		},
		{
			name:  "plan",
			title: "addon-operator plan",
			desc: "A file has a ConfigMap with another retention of Prometheus, and Grafana switched off. addon-operator plan shows what would change: " +
				"one argument of the Deployment of Prometheus, and the objects of Grafana that would be deleted.",
			steps: []step{
				{file: "next.yaml", text: "prometheus: |\n  retention: 30d\ngrafanaEnabled: \"false\"\n"},
				{command: "cat next.yaml"},
				{command: "addon-operator plan -f next.yaml"},
			},
		},
		{
			name:  "dev",
			title: "addon-operator dev",
			desc: "addon-operator dev starts the operator on a directory of modules, against a cluster in memory. When a template is saved, the view " +
				"shows the difference of the rendered object, and that the release was upgraded. When a hook is saved with a mistake, it shows the error.",
			steps: []step{
				{file: "modules/values.yaml", text: "global: {clusterName: world}\ngreeterEnabled: true\n"},
				{file: "modules/010-greeter/values.yaml", text: "greeter: {greeting: Hello}\n"},
				{file: "modules/010-greeter/templates/configmap.yaml", text: template},
				{file: "modules/010-greeter/hooks/before.sh", text: hook},
				{file: "modules/010-greeter/tests/greets.yaml", text: scenario},
				{command: "addon-operator dev modules", then: []action{
					{shows: "0 findings", file: "modules/010-greeter/templates/configmap.yaml", text: template + "  mood: good\n"},
					{shows: "revision 2", file: "modules/010-greeter/hooks/before.sh", text: hook + "echo \"the database is away\" >&2\nexit 1\n"},
					{shows: "failing", keys: "q"},
				}},
			},
		},
	}
}
