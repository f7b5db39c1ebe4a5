// Package bring makes modules of charts that others have published, and brings them to other versions.
package bring
