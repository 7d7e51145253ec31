// Package v4 stands in for what a Helm chart is described with.
package v4

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

type PostRenderer struct {
	Args    []string `pulumi:"args"`
	Command string   `pulumi:"command"`
}

type PostRendererInput interface{ pulumi.Input }

type RepositoryOpts struct {
	CaFile   pulumi.AssetOrArchive `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchive `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchive `pulumi:"keyFile"`
	Password *string               `pulumi:"password"`
	Repo     *string               `pulumi:"repo"`
	Username *string               `pulumi:"username"`
}

type RepositoryOptsInput interface{ pulumi.Input }
