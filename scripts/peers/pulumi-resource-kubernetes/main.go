// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider: the released one's main is generated, and not in
// its module.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:embed schema.json
var schema []byte

// Set by the linker.
var version string

func main() {
	// What it knows of Terraform is for converting programs.
	provider.Serve("kubernetes", version, schema, []byte("{}"))
}
