"""What every figure shares: how allocators look, where labels go, how a drawing becomes a file."""
