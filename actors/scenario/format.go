package scenario

import (
	"time"
)

// Scenario is a test of a file. It does not change when it is played, and may be played again.
type Scenario struct {
	Document

	path   string // of the file
	name   string // MODULE/FILE/TEST
	unit   unit
	broken error // why the file is no scenario
}

// Name is MODULE/FILE, followed by /TEST in a file with several tests.
func (s *Scenario) Name() string { return s.name }

// Path is the absolute path of the file.
func (s *Scenario) Path() string { return s.path }

// Document is a test as it is written. The schema of files is module-test.v1.schema.json, which also explains the
// keys; the types below decode what it has accepted, and their comments say only what the zero value means.
type Document struct {
	Description string `json:"description"`
	Given       given  `json:"given"`
	Steps       []step `json:"steps"`
	Expect      expect `json:"expect"`
}

// given is what is there before the operator starts.
type given struct {
	KubernetesVersion string              `json:"kubernetesVersion"`
	Objects           []map[string]any    `json:"objects"`
	ConfigMap         map[string]any      `json:"configMap"`
	Values            map[string]any      `json:"values"`
	FromGlobalHooks   map[string]any      `json:"fromGlobalHooks"`
	Modules           []string            `json:"modules"`
	GlobalHooks       bool                `json:"globalHooks"`
	Env               map[string]string   `json:"env"`
	Commands          map[string][]answer `json:"commands"`
	Clock             time.Time           `json:"clock"`        // zero: startOfTime
	StrictFields      *bool               `json:"strictFields"` // nil: true
}

// step is one thing that happens; exactly one of its fields is set.
type step struct {
	Apply     []map[string]any `json:"apply"`
	Delete    *Reference       `json:"delete"`
	ConfigMap map[string]any   `json:"configMap"`
	Tick      string           `json:"tick"`
	Advance   string           `json:"advance"`
	FailHook  *failing         `json:"failHook"`
	FailHelm  *failing         `json:"failHelm"`
	Retry     bool             `json:"retry"`
	Restart   bool             `json:"restart"`
	Expect    *expect          `json:"expect"`
}

// failing is of a hook, or of a module: "" is the one of the scenario.
type failing struct {
	Hook   string `json:"hook"`
	Module string `json:"module"`
	Times  int    `json:"times"` // 0: once
}

// expect is what must hold at one moment. What is zero is not compared, with three exceptions: a
// failure, a refusal, or an unknown field that is not expected is a problem.
type expect struct {
	Hooks     []map[string]any  `json:"hooks"`
	Commands  []map[string]any  `json:"commands"`
	Values    map[string]any    `json:"values"`
	ConfigMap map[string]any    `json:"configMap"`
	Objects   []map[string]any  `json:"objects"`
	Absent    []Reference       `json:"absent"`
	Rendered  string            `json:"rendered"`
	Metrics   []map[string]any  `json:"metrics"`
	Log       []any             `json:"log"`
	Modules   map[string]any    `json:"modules"`
	Failing   map[string]string `json:"failing"`
	Refused   string            `json:"refused"`
}
