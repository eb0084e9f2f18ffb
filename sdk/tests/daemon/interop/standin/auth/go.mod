module github.com/xibodev/llm-provider-auth

go 1.24
