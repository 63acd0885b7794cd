// Package e2e holds the tests that speak of Polylog as a whole: that the source keeps the order of the house (tidy_test.go). Tests
// that drive the real binary with clients that are not ours belong here too.
//
// It promises nothing to other packages and nobody imports it. It may import all of them.
package e2e
