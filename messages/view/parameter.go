package view

import "time"

// Parameter is something that people may change while the operator runs.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Default is the value of the options.
	Default string `json:"default"`
	// Until is when the value goes back to the default; zero when it stays.
	Until time.Time `json:"until,omitzero"`
	Help  string    `json:"help"`
	// Choices are all values it can have.
	Choices []string `json:"choices"`
}
