// Package health knows how the objects of releases are doing, by the rules that tools of Kubernetes share (kstatus):
// a Deployment is current when its replicas are available, a Job when it has completed, a custom resource when its
// conditions say so.
//
// [Of] assesses one object. A [Follower] keeps the assessments of many up to date: whoever watches their metadata
// names what has changed, and the follower reads those objects, a few at a time, and keeps a word and a sentence of each.
package health
