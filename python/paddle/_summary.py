"""paddle.summary: the layers of a net and their parameters, printed."""


def summary(net, input_size=None, dtypes=None, input=None):
    """Prints the layers of a net with their parameters: {'total_params': ..., 'trainable_params': ...}."""
    count, total, trained = {}, 0, 0
    for path, parameter in net.named_parameters():
        size = 1
        for extent in parameter.shape:
            size *= extent
        count[path] = (parameter, size)
        total, trained = total + size, trained + size * parameter.trainable
    width = max([len(path) for path in count] + [9])
    for path, (parameter, size) in count.items():
        print(f'{path.ljust(width)}  {parameter.name}  {list(parameter.shape)}  {size}')
    print(f'{total} parameters, {trained} of them trained')
    return {'total_params': total, 'trainable_params': trained}
